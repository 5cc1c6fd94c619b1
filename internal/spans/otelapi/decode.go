package otelapi

import (
	"cmp"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteStart = iota
	noteStarted
	noteEnd
	noteSetAttributes
	noteSetStatus
	noteSetName
	noteAddEvent
	noteRecordError
)

const (
	contextsMax = 32      // contexts in a note, as in contexts.h
	maxOpen     = 1 << 14 // spans that have not ended; older ones may never end
	maxEvents   = 128     // events of a span, and attributes of a span or an event: the default limits of an SDK
)

// An own is a span of the program.
type own struct {
	span   *spans.Span // nil when it has ended, and if around is set
	around *spans.Span // of a library: it describes the same operation, so this one is not reported
	copies [2]uint64   // its addresses: of the one that Start has returned, and of the one in the context
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	process  Process
	complete func() bool
	checked  bool            // complete has been called
	ends     bool            // its result
	starting map[uint64]*own // by goroutine: Start has not returned
	open     map[uint64]*own // by address
	order    []*own          // in the order of their starts; those that have ended are among them
}

func newDecoder(t *join.Tracker, p Process, complete func() bool) *decoder {
	return &decoder{tracker: t, process: p, complete: complete, starting: map[uint64]*own{}, open: map[uint64]*own{}}
}

func (d *decoder) decode(n *probe.Note) {
	if !d.checked {
		d.checked, d.ends = true, d.complete()
	}
	switch n.What {
	case noteStart:
		d.start(n)
		return
	case noteStarted:
		d.started(n)
		return
	}
	o := d.open[n.Word()]
	if o == nil { // it has ended, it began before the session, or its begin was lost
		return
	}
	if o.around != nil {
		if n.What == noteEnd {
			d.forget(o)
		}
		return
	}
	switch n.What {
	case noteEnd:
		d.end(n, o)
	case noteSetAttributes:
		set(&o.span.Attributes, d.items(n).attributes)
	case noteSetStatus:
		code := codes.Code(n.Word())
		message, _ := d.text(n)
		setStatus(o.span, code, message)
	case noteSetName:
		if name, ok := d.text(n); ok {
			o.span.Name = name
		}
	case noteAddEvent:
		name, _ := d.text(n)
		given := d.items(n)
		d.event(o.span, name, n.Time, given.at, given.attributes)
	case noteRecordError:
		typ := d.typeName(n.Word(), n.Word())
		message, known := d.text(n)
		given := d.items(n)
		d.event(o.span, "exception", n.Time, given.at, recorded(typ, message, known, given.attributes))
	}
}

// start begins a span.
func (d *decoder) start(n *probe.Note) {
	if !d.ends {
		return
	}
	library, _ := d.text(n)
	name, ok := d.text(n)
	if !ok {
		d.tracker.Mismatch()
		return
	}
	parent, request := d.parent(n)
	given := d.items(n)
	s := &spans.Span{Library: library, Own: true, Kind: trace.ValidateSpanKind(given.kind), Name: name, Start: n.Time, G: n.G}
	set(&s.Attributes, given.attributes)
	o := &own{around: d.tracker.Describes(s)}
	if o.around == nil {
		o.span = d.tracker.Enter(s, parent, given.root, request)
	}
	if given.at != 0 {
		s.Start = given.at
	}
	if old := d.starting[n.G]; old != nil { // its return was lost
		d.abandon(old, n.Time)
	}
	d.starting[n.G] = o
	d.order = append(d.order, o)
	d.limit(n.Time)
}

// parent reads contexts. It returns the first span of the program that they have, or if they have an operation of another library before,
// that and nil.
func (d *decoder) parent(n *probe.Note) (parent, request *spans.Span) {
	for range contextsMax + 1 {
		context := n.Word()
		if context == 0 {
			break
		}
		own := d.open[n.Word()]
		if parent != nil || request != nil {
			continue
		}
		if own != nil {
			parent = cmp.Or(own.span, own.around)
		} else if s := d.tracker.Passed(context); s != nil && !s.Own {
			request = s
		}
	}
	return parent, request
}

// started takes the addresses of a span.
func (d *decoder) started(n *probe.Note) {
	o := d.starting[n.G]
	delete(d.starting, n.G)
	if o == nil || o.span == nil && o.around == nil { // an SDK has made the span, or limit has ended it
		return
	}
	o.copies = [2]uint64{n.Word(), n.Word()}
	context := n.Word()
	if o.copies[0] == 0 || o.copies[1] == 0 {
		d.tracker.Mismatch()
		d.abandon(o, n.Time)
		return
	}
	for _, addr := range o.copies {
		if old := d.open[addr]; old != nil { // the program has dropped it without an end
			d.abandon(old, n.Time)
		}
		d.open[addr] = o
	}
	d.tracker.Pass(cmp.Or(o.span, o.around), context)
}

// end ends a span.
func (d *decoder) end(n *probe.Note, o *own) {
	at := n.Time
	if given := d.items(n); given.at != 0 {
		at = given.at
	}
	d.finish(o, at)
}

// abandon ends a span whose end cannot be observed any more.
func (d *decoder) abandon(o *own, at int64) {
	if o.span != nil {
		o.span.Ending = spans.Unobserved
		d.finish(o, at)
	}
	d.forget(o)
}

// finish ends a span, and forgets it.
func (d *decoder) finish(o *own, at int64) {
	d.forget(o)
	d.tracker.Exit(o.span, at)
	o.span = nil
}

// forget forgets the addresses of a span.
func (d *decoder) forget(o *own) {
	for _, addr := range o.copies {
		if d.open[addr] == o {
			delete(d.open, addr)
		}
	}
	o.around = nil
}

// limit abandons the oldest spans if there are too many.
func (d *decoder) limit(at int64) {
	if len(d.order) <= 2*maxOpen {
		return
	}
	d.order = slices.DeleteFunc(d.order, func(o *own) bool { return o.span == nil && o.around == nil })
	for len(d.order) > maxOpen {
		d.abandon(d.order[0], at)
		d.order = d.order[1:]
	}
}

// event adds an event to a span. Of too many, the oldest ones are dropped.
func (d *decoder) event(s *spans.Span, name string, at, given int64, attributes []attribute.KeyValue) {
	if given != 0 {
		at = given
	}
	if len(s.Events) >= maxEvents {
		s.Events = slices.Delete(s.Events, 0, 1)
	}
	e := spans.Event{Name: name, Time: at}
	set(&e.Attributes, attributes)
	s.Events = append(s.Events, e)
}

// set adds attributes to a list. The last value of a key counts.
func set(to *[]attribute.KeyValue, list []attribute.KeyValue) {
	for _, kv := range list {
		i := slices.IndexFunc(*to, func(old attribute.KeyValue) bool { return old.Key == kv.Key })
		switch {
		case i >= 0:
			(*to)[i] = kv
		case len(*to) < maxEvents:
			*to = append(*to, kv)
		}
	}
}

// setStatus sets the status of a span by the rules of an SDK: Ok is final, and only errors have a message.
func setStatus(s *spans.Span, code codes.Code, message string) {
	if code > codes.Ok || s.Status > code {
		return
	}
	if s.Status, s.Message = code, ""; code == codes.Error {
		s.Message = message
	}
}
