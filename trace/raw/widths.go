package raw

import (
	"bytes"
	"fmt"
)

// In the text format the widths of an event stand in a comment before it, which says for the numbers that take more bytes
// than they need how many bytes they take:
//
//	#widths size=10
//
// A number is named like its argument; lengthWidth and dataWidth are the length of a V1 event and the length of data. A
// number of a frame has the number of the frame, from 0, before it: 3.pc=5.
const (
	widthsWord  = "#widths"
	lengthWidth = "length"
	dataWidth   = "data"
)

var frameArgs = [4]string{"pc", "func", "file", "line"}

// addWidths writes the comment with the widths of an event, if there is a number that takes more bytes than it needs.
func (w *TextWriter) addWidths(ev *Event, c *code) bool {
	out := &w.out
	began := false
	ok := true
	eachNumber(ev, c, func(i int, n numberName, x uint64) {
		if i >= len(ev.Widths) || !ok {
			return
		}
		width := min(ev.Widths[i], maxVarint)
		if int(width) <= varintSize(x) {
			return
		}
		if !began {
			began = true
			ok = out.addString(widthsWord)
		}
		var digits [decimalRoom]byte
		ok = ok && out.addString(" ")
		if n.frame >= 0 {
			ok = ok && out.add(digits[:putDecimal(digits[:], uint64(n.frame))]) && out.addString(".")
		}
		ok = ok && out.addString(n.name) && out.addString("=")
		ok = ok && out.add(digits[:putDecimal(digits[:], uint64(width))])
	})
	if began {
		ok = ok && out.addString("\n")
	}
	return ok
}

// A numberName names a number of an event.
type numberName struct {
	frame int // the frame that it belongs to, or -1
	name  string
}

// eachNumber calls f for the numbers of an event as they are on the wire, with their places there.
func eachNumber(ev *Event, c *code, f func(i int, n numberName, x uint64)) {
	i := 0
	call := func(frame int, name string, x uint64) {
		f(i, numberName{frame, name}, x)
		i++
	}
	if c.length {
		var rest []uint8
		if len(ev.Widths) > 0 {
			rest = ev.Widths[1:]
		}
		call(-1, lengthWidth, partsSize(ev, rest))
	}
	for i, x := range ev.Args {
		call(-1, c.spec.Args[i], x)
	}
	for i, fr := range ev.Frames {
		for j, x := range [...]uint64{fr.PC, fr.Func, fr.File, fr.Line} {
			call(i, frameArgs[j], x)
		}
	}
	if c.spec.HasData {
		call(-1, dataWidth, uint64(len(ev.Data)))
	}
}

// cutWidths returns what follows the word of a #widths comment. ok is false if the line is another comment.
func cutWidths(line []byte) (numbers []byte, ok bool) {
	rest, ok := bytes.CutPrefix(trimSpace(line), []byte(widthsWord))
	if !ok || len(rest) > 0 && spaceSize(rest) == 0 {
		return nil, false
	}
	return rest, true
}

// parseWidths fills ev.Widths by the text of a #widths comment.
func (ev *Event) parseWidths(text []byte, c *code) error {
	next, rest, width, err := nextWidth(text)
	if err != nil {
		return err
	}
	eachNumber(ev, c, func(i int, n numberName, _ uint64) {
		if len(next) == 0 || err != nil || !n.is(next) {
			return
		}
		for len(ev.Widths) < i {
			ev.Widths = append(ev.Widths, 0)
		}
		ev.Widths = append(ev.Widths, width)
		next, rest, width, err = nextWidth(rest)
	})
	if err == nil && len(next) > 0 {
		err = fmt.Errorf("%s: no number %s, or out of order", widthsWord, quoted(next))
	}
	return err
}

// nextWidth returns the first name and width of the text of a #widths comment, and what follows them. The name is empty at
// the end.
func nextWidth(text []byte) (name, rest []byte, width uint8, err error) {
	tok, rest := token(text)
	if len(tok) == 0 {
		return nil, nil, 0, nil
	}
	name, value, ok := bytes.Cut(tok, []byte("="))
	x, isNumber := parseDecimal(value)
	if !ok || len(name) == 0 || !isNumber || x < 1 || x > maxVarint {
		return nil, nil, 0, fmt.Errorf("%s: want NAME=WIDTH with a width from 1 to %d, got %s", widthsWord, maxVarint, quoted(tok))
	}
	return name, rest, uint8(x), nil
}

// is reports whether text names the number.
func (n numberName) is(text []byte) bool {
	if n.frame < 0 {
		return string(text) == n.name
	}
	frame, name, ok := bytes.Cut(text, []byte("."))
	x, isNumber := parseDecimal(frame)
	return ok && isNumber && x == uint64(n.frame) && string(name) == n.name
}
