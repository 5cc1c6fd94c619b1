package chrome

import (
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
)

// appendString appends a text as a JSON string. It escapes control and other misleading characters first.
func appendString(b []byte, s string) []byte { return appendName(b, &timeline.Name{Text: s}) }

// appendName appends a name as a JSON string.
func appendName(b []byte, n *timeline.Name) []byte {
	b = append(b, '"')
	begin := len(b)
	b = n.AppendTo(b)
	for _, c := range b[begin:] {
		if c == '"' || c == '\\' {
			b = append(b[:begin], quotes.Replace(string(b[begin:]))...)
			break
		}
	}
	return append(b, '"')
}

// quotes escapes the characters that JSON requires in a text without control characters.
var quotes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// appendArg appends an argument as a member of a JSON object.
func appendArg(b []byte, a *timeline.Arg) []byte {
	b = append(append(append(b, '"'), a.Key.String()...), `":`...)
	switch {
	case a.IsText:
		return appendString(b, a.Text)
	case a.Key == timeline.KeyObject:
		return append(strconv.AppendUint(append(b, `"0x`...), uint64(a.Number), 16), '"')
	}
	return strconv.AppendInt(b, a.Number, 10)
}

// maxStackBytes bounds the cache of stack texts. A full cache is cleared.
const maxStackBytes = 16 << 20

// stack returns a stack as a member of a JSON object, an array of frames, the innermost first.
func (w *Writer) stack(s *event.Stack) []byte {
	if text, ok := w.stacks[s]; ok {
		return text
	}
	text := []byte(`"stack":[`)
	n := min(w.opt.Frames, len(s.Frames))
	for i, f := range s.Frames[:n] {
		if i > 0 {
			text = append(text, ',')
		}
		frame := f.Func
		if f.File != "" {
			frame += " " + f.File + ":" + strconv.Itoa(max(f.Line, 0))
		}
		text = appendString(text, frame)
	}
	if n < len(s.Frames) || s.Truncated {
		text = append(text, `,"…"`...)
	}
	text = append(text, ']')
	if w.stackBytes > maxStackBytes {
		clear(w.stacks)
		w.stackBytes = 0
	}
	w.stacks[s] = text
	w.stackBytes += len(text)
	return text
}
