package otelsdk

import (
	"encoding/binary"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteBegin = iota
	noteBegun
	noteEnd
)

const (
	maxKeys = 12 // attributes whose keys are in a note, as in probes.c
	maxText = 256

	kindPointer = 22     // of a type, as in probes.c
	flagRemote  = 1 << 8 // of a context, as in probes.c
)

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	process  Process
	starting map[uint64]join.Made // by goroutine: newSpan has not returned
	recorded map[uint64]bool      // by itab: whether the type of a span is *recordingSpan
}

func newDecoder(t *join.Tracker, p Process) *decoder {
	return &decoder{tracker: t, process: p, starting: map[uint64]join.Made{}, recorded: map[uint64]bool{}}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case noteBegin:
		d.begin(n)
	case noteBegun:
		d.begun(n)
	case noteEnd:
		d.end(n)
	}
}

// begin reads what the program has passed to Start.
func (d *decoder) begin(n *probe.Note) {
	kind, processors := n.Word(), n.Word()
	name, scope := d.text(n), d.text(n)
	m := join.Made{Exported: processors != 0, Family: d.family(n)}
	m.Span = &spans.Span{Library: scope, Own: true, Name: name, G: n.G, Start: n.Time, Kind: trace.ValidateSpanKind(trace.SpanKind(min(kind, 1<<16)))}
	d.starting[n.G] = m
}

// begun reads the context of the span that was made.
func (d *decoder) begun(n *probe.Note) {
	m, ok := d.starting[n.G]
	delete(d.starting, n.G)
	itab, typ := n.Word(), n.Word()
	own, parent, kind := context(n), context(n), n.Word()
	if !ok { // its begin was lost, or came before the session
		return
	}
	m.Recorded = d.isRecorded(itab, typ)
	if !own.IsValid() || m.Recorded != (kind == 0 || kind == kindPointer) {
		d.tracker.Mismatch()
		d.tracker.Made(join.Made{Span: m.Span})
		return
	}
	m.Span.Context, m.Span.Parent = own, parent
	if parent.IsValid() && parent.TraceID() != own.TraceID() {
		d.tracker.Mismatch()
		m.Span.Parent = trace.SpanContext{}
	}
	d.tracker.Made(m)
}

// end reads the span that ends. Those of operations that are sent have their attributes.
func (d *decoder) end(n *probe.Note) {
	c, family := context(n), join.Unknown
	switch trace.SpanKind(n.Word()) {
	case trace.SpanKindClient, trace.SpanKindProducer:
		family = d.family(n)
	}
	if c.IsValid() {
		d.tracker.MadeEnded(c.SpanID(), n.Time, family)
	}
}

// isRecorded reports whether the type in an itab is *recordingSpan. typ is 0 if a probe could not read it.
func (d *decoder) isRecorded(itab, typ uint64) bool {
	recorded, ok := d.recorded[itab]
	if ok {
		return recorded
	}
	if typ == 0 {
		if b, err := d.process.Image(itab+8, 8); err == nil {
			typ = binary.LittleEndian.Uint64(b)
		}
	}
	name, err := d.process.TypeName(typ)
	if err != nil {
		return false
	}
	recorded = strings.HasSuffix(name, "trace.recordingSpan")
	if len(d.recorded) < 1<<8 {
		d.recorded[itab] = recorded
	}
	return recorded
}

// context reads a span context.
func context(n *probe.Note) trace.SpanContext {
	var c trace.SpanContextConfig
	binary.LittleEndian.PutUint64(c.TraceID[:8], n.Word())
	binary.LittleEndian.PutUint64(c.TraceID[8:], n.Word())
	binary.LittleEndian.PutUint64(c.SpanID[:], n.Word())
	flags := n.Word()
	c.TraceFlags, c.Remote = trace.TraceFlags(flags)&trace.FlagsSampled, flags&flagRemote != 0
	return trace.NewSpanContext(c)
}

// family reads the beginnings of the keys of the attributes, and returns what they say of the operation.
func (d *decoder) family(n *probe.Note) (f join.Family) {
	for range maxKeys {
		word, addr := n.Word(), n.Word()
		key := binary.LittleEndian.AppendUint64(nil, word)
		if word == 0 && addr != 0 {
			if b, err := d.process.Image(addr, 8); err == nil {
				key = b
			}
		}
		f = f.With(string(key))
	}
	return f
}

// text reads a text and its address. A constant that a probe could not read comes from the executable.
func (d *decoder) text(n *probe.Note) string {
	addr, t := n.Word(), n.Text()
	switch {
	case t.Marks&probe.MarkImpossible != 0:
		return ""
	case t.Marks&probe.MarkUnreadable == 0:
		return string(t.Bytes)
	}
	b, err := d.process.Image(addr, int(min(t.Length, maxText)))
	if err != nil {
		return ""
	}
	return string(b)
}
