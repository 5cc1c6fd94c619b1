package functions

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteCalled = iota
	noteReturned
)

const (
	maxOpen  = 1 << 16 // calls that have not returned; further ones have an unknown end
	maxTypes = 1 << 12 // names of types that are kept
)

// A call is one that has not returned.
type call struct {
	f     *Function
	depth uint64 // distance of the frame from the beginning of the stack
	span  *spans.Span
}

// A stack is the calls of a goroutine, innermost last, and the types of the values with which it panics.
type stack struct {
	calls  []call
	panics []uint64
}

// decoder reads the notes of the sets. The C half writes them in the same order.
type decoder struct {
	tracker *join.Tracker
	process Process
	stacks  map[uint64]*stack // by goroutine
	open    int               // calls in stacks
	types   map[uint64]string // names by address
}

func newDecoder(t *join.Tracker, p Process) *decoder {
	return &decoder{tracker: t, process: p, stacks: map[uint64]*stack{}, types: map[uint64]string{}}
}

// decode takes a note of a function.
func (d *decoder) decode(f *Function, n *probe.Note) {
	depth := n.Word()
	if n.What == noteCalled {
		d.called(f, depth, n)
	} else {
		d.returned(f, depth, n)
	}
}

// called begins a call. Calls whose frames would be at the same place or below are over: their ends were lost.
func (d *decoder) called(f *Function, depth uint64, n *probe.Note) {
	s := d.stacks[n.G]
	if s != nil {
		d.unwind(s, depth, n.Time, "", "")
	}
	span := &spans.Span{Library: f.pkg, Name: f.name, Start: n.Time, G: n.G}
	span.Set(semconv.CodeFunctionNameKey.String(f.name))
	if f.file != "" {
		span.Set(semconv.CodeFilePathKey.String(f.file))
	}
	if f.line > 0 {
		span.Set(semconv.CodeLineNumberKey.Int(f.line))
	}
	for i := range f.params {
		span.Set(d.read(n, &f.params[i]).attribute)
	}
	d.tracker.Call(span)
	if d.open >= maxOpen && !d.sweep() {
		d.tracker.Return(span, n.Time, spans.Unobserved)
		return
	}
	if s == nil {
		s = &stack{}
		d.stacks[n.G] = s
	}
	s.calls = append(s.calls, call{f, depth, span})
	d.open++
}

// returned ends a call.
func (d *decoder) returned(f *Function, depth uint64, n *probe.Note) {
	s := d.stacks[n.G]
	if s == nil {
		d.tracker.Stray()
		return
	}
	d.unwind(s, depth+1, n.Time, "", "")
	last := len(s.calls) - 1
	if last < 0 || s.calls[last].depth != depth || s.calls[last].f != f {
		d.tracker.Stray()
		d.settle(n.G, s)
		return
	}
	span := s.calls[last].span
	if span.End != 0 { // its goroutine was thought to have ended
		d.pop(s)
		d.settle(n.G, s)
		return
	}
	for i := range f.results {
		r := d.read(n, &f.results[i])
		span.Set(r.attribute)
		if r.failed && i == len(f.results)-1 {
			span.Set(semconv.ErrorTypeKey.String(r.typ))
			span.Fail(r.message)
		}
	}
	d.pop(s)
	d.tracker.Return(span, n.Time, spans.Returned)
	d.settle(n.G, s)
}

// unwind ends the calls of a goroutine whose frames are gone: those at a depth or below. reason is what has ended them and typ the type of
// an error; if both are empty, their ends were lost.
func (d *decoder) unwind(s *stack, depth uint64, at int64, reason, typ string) {
	for len(s.calls) > 0 && s.calls[len(s.calls)-1].depth >= depth {
		span := s.calls[len(s.calls)-1].span
		d.pop(s)
		ending := spans.Unobserved
		if reason != "" && span.End == 0 {
			ending = spans.Panicked
			if typ != "" {
				span.Set(semconv.ErrorTypeKey.String(typ))
			}
			span.Fail(reason)
		}
		d.tracker.Return(span, at, ending)
	}
}

// pop removes the innermost call.
func (d *decoder) pop(s *stack) {
	last := len(s.calls) - 1
	s.calls[last] = call{}
	s.calls = s.calls[:last]
	d.open--
}

// settle forgets a goroutine without calls.
func (d *decoder) settle(g uint64, s *stack) {
	if len(s.calls) == 0 {
		delete(d.stacks, g)
	}
}

// sweep forgets the goroutines whose calls have ended with them. It reports whether there were some.
func (d *decoder) sweep() bool {
	found := false
	for g, s := range d.stacks {
		if !slices.ContainsFunc(s.calls, func(c call) bool { return c.span.End == 0 }) {
			d.open -= len(s.calls)
			delete(d.stacks, g)
			found = true
		}
	}
	return found
}

// Panics implements unwind.Receiver.
func (d *decoder) Panics(g, typ uint64) {
	if s := d.stacks[g]; s != nil {
		s.panics = append(s.panics, typ)
	}
}

// Recovered implements unwind.Receiver.
func (d *decoder) Recovered(g, depth uint64, at int64) {
	s := d.stacks[g]
	if s == nil {
		return
	}
	typ := ""
	if n := len(s.panics); n > 0 {
		typ = d.typeName(s.panics[n-1])
		s.panics = s.panics[:n-1]
	}
	d.unwind(s, depth, at, "panic", typ)
	d.settle(g, s)
}

// Exits implements unwind.Receiver.
func (d *decoder) Exits(g uint64, at int64) {
	if s := d.stacks[g]; s != nil {
		d.unwind(s, 0, at, "runtime.Goexit", "")
		d.settle(g, s)
	}
}

// A reading is what was read of a value. The rest is about errors.
type reading struct {
	attribute    attribute.KeyValue
	failed       bool // it is an error other than nil
	typ, message string
}

// read reads a value from a note.
func (d *decoder) read(n *probe.Note, v *value) reading {
	key := attribute.Key(v.key)
	switch v.form {
	case formWord:
		return reading{attribute: word(key, v.typ, n.Word())}
	case formString:
		text, ok := d.text(n)
		if !ok {
			text = "unreadable"
		}
		return reading{attribute: key.String(text)}
	case formLength:
		return reading{attribute: key.String(fmt.Sprintf("%s, length %d", typeName(v.typ), n.Word()))}
	case formEmpty:
		return reading{attribute: key.String(d.typeName(n.Word()))}
	case formInterface:
		_, typ := d.interfaceType(n)
		return reading{attribute: key.String(typ)}
	case formError:
		failed, typ := d.interfaceType(n)
		message, known := d.text(n)
		r := reading{attribute: key.String(typ), failed: failed, typ: typ}
		if failed && known && messages[typ] {
			r.message = message
			r.attribute = key.String(typ + ": " + message)
		}
		return r
	}
	return reading{attribute: key.String(typeName(v.typ))}
}

// messages are the types of errors whose first field is their message.
var messages = map[string]bool{"*errors.errorString": true, "*fmt.wrapError": true, "*fmt.wrapErrors": true}

// interfaceType reads the type of the value in an interface with methods. exists is false if the interface is nil.
func (d *decoder) interfaceType(n *probe.Note) (exists bool, name string) {
	itab, typ := n.Word(), n.Word()
	if itab == 0 {
		return false, "nil"
	}
	if typ == 0 {
		if b, err := d.process.Constant(itab+8, 8); err == nil {
			typ = leWord(b)
		}
	}
	return true, d.typeName(typ)
}

func leWord(b []byte) uint64 {
	w := uint64(0)
	for i := range 8 {
		w |= uint64(b[i]) << (8 * i)
	}
	return w
}

// typeName returns the name of the type at an address.
func (d *decoder) typeName(addr uint64) string {
	if addr == 0 {
		return "nil"
	}
	if name, ok := d.types[addr]; ok {
		return name
	}
	name, err := d.process.TypeName(addr)
	if err != nil {
		name = semconv.ErrorTypeOther.Value.AsString()
	}
	if len(d.types) >= maxTypes {
		clear(d.types)
	}
	d.types[addr] = name
	return name
}

// text reads a text and its address. A constant that the probe could not read is in the executable.
func (d *decoder) text(n *probe.Note) (text string, ok bool) {
	addr, t := n.Word(), n.Text()
	if t.Marks&probe.MarkUnreadable != 0 {
		b, err := d.process.Constant(addr, int(min(t.Length, maxText)))
		if err != nil {
			return "", false
		}
		t.Bytes = b
	}
	if t.Marks&probe.MarkImpossible != 0 {
		return "", false
	}
	text = string(t.Bytes)
	if t.Length > maxText {
		text += "…"
	}
	return text, true
}

// word returns a value of one word, of which the bits beyond its size have no meaning.
func word(key attribute.Key, t *gobin.Type, w uint64) attribute.KeyValue {
	bits := min(max(t.Size, 1), 8) * 8
	low := w << (64 - bits) >> (64 - bits)
	switch t.Kind {
	case gobin.KindBool:
		return key.Bool(low != 0)
	case gobin.KindInt:
		return key.Int64(int64(w<<(64-bits)) >> (64 - bits))
	case gobin.KindUint:
		if low > math.MaxInt64 {
			return key.String(fmt.Sprint(low))
		}
		return key.Int64(int64(low))
	}
	if low == 0 {
		return key.String("nil")
	}
	return key.String(fmt.Sprintf("%#x", low))
}

// typeName returns the name of a type.
func typeName(t *gobin.Type) string {
	return strings.ReplaceAll(t.Name, "go.shape.", "")
}
