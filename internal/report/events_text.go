package report

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
)

// EventText encodes events as text, one per line: time, goroutine, kind, detail, place.
type EventText struct {
	style   term.Style
	clock   clock
	kinds   [event.KindLimit]string // names in color, padded to the column width
	stacks  textCache[event.Stack]
	origins textCache[event.Origin]
}

// NewEventText returns an encoder for events of the given kinds, in local time.
func NewEventText(style term.Style, kinds event.Kinds) *EventText {
	t := &EventText{style: style, clock: clock{zone: time.Local, layout: "15:04:05"}}
	columns := 0
	for _, k := range kinds.List() {
		if n := len(k.String()); n <= kindColumns {
			columns = max(columns, n)
		}
	}
	for i := range t.kinds {
		k := event.Kind(i)
		name := k.String()
		t.kinds[i] = "  " + t.paint(k, name) + strings.Repeat(" ", max(columns-len(name), 0)) + "  "
	}
	return t
}

// The columns of a line, at most; longer words push what follows to the right.
const (
	goroutineColumns = 8
	kindColumns      = 14
	detailColumns    = 28
)

// Append appends an event to b as one line.
func (t *EventText) Append(b []byte, e *event.Event, ended *stream.Interval) []byte {
	b = t.clock.appendTo(b, e.Time, 6)
	b = append(b, "  "...)
	start := len(b)
	if e.G != 0 {
		b = strconv.AppendUint(append(b, "g "...), e.G, 10)
	}
	b = append(fill(b, goroutineColumns-(len(b)-start)), t.kinds[e.Kind]...)
	start = len(b)
	b = appendDetail(b, e, ended)
	if place := t.place(e); len(place) > 0 {
		b = append(fill(b, detailColumns-utf8.RuneCount(b[start:])), "  "...)
		b = append(b, place...)
	} else {
		b = bytes.TrimRight(b, " ")
	}
	return append(b, '\n')
}

// paint colors the name of a kind.
func (t *EventText) paint(k event.Kind, name string) string {
	switch k.Describe().Tone {
	case event.ToneGood:
		return t.style.Good(name)
	case event.ToneWarn:
		return t.style.Warn(name)
	case event.ToneBad:
		return t.style.Bad(name)
	case event.ToneDim:
		return t.style.Dim(name)
	}
	return name
}

// fill appends n blanks.
func fill(b []byte, n int) []byte {
	const blanks = "                                "
	for ; n > len(blanks); n -= len(blanks) {
		b = append(b, blanks...)
	}
	return append(b, blanks[:max(n, 0)]...)
}

// appendDetail appends the details that are specific to the kind of the event.
func appendDetail(b []byte, e *event.Event, ended *stream.Interval) []byte {
	w := words{buf: b}
	switch e.Kind {
	case event.GoStatus:
		w.add(string(e.State))
		w.add(event.WaitText(e.WaitReason(), e.Stack.RuntimeWork()))
		w.span("for ", int64(e.Wait()))
	case event.GoCreate:
		w.id("by g ", e.Parent)
		if e.Origin != nil {
			w.add(place.ShortFunc(e.Origin.Start.Func))
		}
	case event.GoStart:
		w.spent(ended, event.StateRunnable, "runnable ")
	case event.GoStop:
		w.add(event.WaitText(e.StopReason(), e.Stack.RuntimeWork()))
	case event.GoBlock:
		w.add(event.WaitText(e.WaitReason(), e.Stack.RuntimeWork()))
		w.span("for ", int64(e.Wait()))
	case event.GoUnblock:
		if e.By == 0 {
			w.add("by the runtime")
		}
		w.id("by g ", e.By)
		w.spent(ended, event.StateWaiting, "blocked ")
	case event.GoSyscallEnd:
		w.span("took ", int64(e.SyscallTime()))
	case event.ChanSend, event.ChanReceive, event.ChanClose, event.SemAcquire, event.SemRelease:
		if e.G == 0 {
			w.add("by the runtime")
		}
	case event.Select:
		w.add(english.Count(e.Cases(), "case"))
	case event.Lost:
		if e.Missing() == 0 {
			w.add("events before this one may be missing")
			break
		}
		w.add(fmt.Sprintf("%s before this one %s missing", english.Count(e.Missing(), "event"), english.Pick(e.Missing(), "is", "are")))
	case event.Exec:
		w.add("the process now executes another program")
	case event.Resample:
		w.add(fmt.Sprintf("%.4g %% of the goroutines are sampled from now on", 100*sampling.OfShare(e.Sampled()).Ratio()))
	default:
		w.described(e)
	}
	if e.Text != "" {
		w.add(strconv.Quote(e.Text))
	}
	w.id("parent task ", e.ParentTask())
	if address := e.Address(); address != 0 {
		w.next()
		w.buf = strconv.AppendUint(append(w.buf, "0x"...), address, 16)
	}
	return w.buf
}

// EventDetail returns the fields of an event in words, without the kind, the goroutine and the stack.
func EventDetail(e *event.Event) string { return string(appendDetail(nil, e, &stream.Interval{})) }

// described appends the reason and the value of an event whose kind has no special text, using the table of kinds.
func (w *words) described(e *event.Event) {
	w.add(e.Reason)
	f, ok := e.Kind.Describe().Field("Value")
	switch {
	case !ok || e.Value == 0 && f.Optional:
	case f.Unit == event.Nanoseconds:
		w.span("for ", e.Value)
	case f.Unit == event.Bytes:
		w.add(english.Size(e.Value))
	default:
		w.add(f.Key + " " + strconv.FormatInt(e.Value, 10))
	}
}

// words joins the parts of a detail.
type words struct {
	buf  []byte
	some bool
}

func (w *words) next() {
	if w.some {
		w.buf = append(w.buf, ", "...)
	}
	w.some = true
}

func (w *words) add(text string) {
	if text != "" {
		w.next()
		w.buf = append(w.buf, term.Escape(text)...)
	}
}

func (w *words) id(word string, id uint64) {
	if id != 0 {
		w.next()
		w.buf = strconv.AppendUint(append(w.buf, word...), id, 10)
	}
}

// span appends a duration in nanoseconds, or nothing if it is 0, which means unknown.
func (w *words) span(word string, nanos int64) {
	if nanos > 0 {
		w.next()
		w.buf = appendShortTime(append(w.buf, word...), nanos)
	}
}

// spent appends the duration of the state that the event ends.
func (w *words) spent(ended *stream.Interval, state event.State, word string) {
	if ended.State != state {
		return
	}
	switch {
	case ended.Partial:
		word += "more than "
	case ended.Doubtful:
		word += "at most "
	}
	w.span(word, int64(ended.Duration))
}

// timeUnits are the units of short times.
var timeUnits = []struct {
	nanos int64
	name  string
}{{int64(time.Second), "s"}, {int64(time.Millisecond), "ms"}, {int64(time.Microsecond), "µs"}}

// ShortTime formats a duration with two or three significant digits: "850ns", "1.2ms", "35ms", "12.5s", "2m5s".
func ShortTime(d time.Duration) string { return string(appendShortTime(nil, int64(max(d, 0)))) }

// appendShortTime appends a duration in the format of ShortTime.
func appendShortTime(b []byte, nanos int64) []byte {
	if nanos >= int64(time.Minute) {
		return append(b, Duration(time.Duration(nanos))...)
	}
	for _, u := range timeUnits {
		if nanos < u.nanos {
			continue
		}
		b = strconv.AppendInt(b, nanos/u.nanos, 10)
		if tenth := nanos % u.nanos * 10 / u.nanos; tenth > 0 && nanos < 100*u.nanos {
			b = append(b, '.', byte('0'+tenth))
		}
		return append(b, u.name...)
	}
	return append(strconv.AppendInt(b, nanos, 10), "ns"...)
}

// place appends the place of the event: the innermost line of its stack that belongs to the program.
func (t *EventText) place(e *event.Event) []byte {
	switch {
	case e.Stack != nil:
		return t.stacks.get(e.Stack, func(b []byte, s *event.Stack) []byte { return t.appendPlace(b, place.OfEvent(s, "")) })
	case e.Origin != nil:
		return t.origins.get(e.Origin, func(b []byte, o *event.Origin) []byte { return t.appendPlace(b, o.CreatedBy) })
	}
	return nil
}

func (t *EventText) appendPlace(b []byte, f event.Frame) []byte {
	if f.IsZero() {
		return b
	}
	b = append(b, t.style.Name(term.Escape(place.ShortFunc(f.Func)))...)
	return append(b, term.Escape(" "+path.Base(f.File)+":"+strconv.Itoa(f.Line))...)
}

// PlaceOf returns the place of a goroutine from its stack, such as "main.transfer (/src/bank.go:12)". Without a stack
// it returns the start function of the goroutine, or "" if that is unknown.
func PlaceOf(s *event.Stack, o *event.Origin) string {
	var f event.Frame
	switch {
	case s != nil:
		f = place.OfEvent(s, "")
	case o != nil:
		f = o.Start
	}
	switch {
	case f.IsZero():
		return ""
	case f.File == "":
		return term.Escape(f.Func)
	}
	return term.Escape(fmt.Sprintf("%s (%s:%d)", f.Func, f.File, f.Line))
}
