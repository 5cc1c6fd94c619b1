package join

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/loupe-go/loupe/spans"
)

// A Served is a request that the program serves, and the memory that its span requires. NewServed returns one, Serve begins its span.
// Its texts must be valid UTF-8.
type Served struct {
	Span spans.Span

	work    spans.Work
	request request
	room    [16]attribute.KeyValue // for Span.Attributes

	passed [2]uint64 // addresses by which the program passes the span on: see Pass
	place  int       // in passed.waiting, from 1 on; 0: passed.spans has the addresses
}

// maxReusable bounds the memory that is kept for other requests.
const maxReusable = 1 << 10

// NewServed returns the memory for a request. Span is empty, and has room for the attributes that a request has.
func (t *Tracker) NewServed() *Served {
	var r *Served
	if n := len(t.reusable); n > 0 {
		r, t.reusable = t.reusable[n-1], t.reusable[:n-1]
		r.Span = spans.Span{}
	} else {
		r = new(Served)
	}
	r.Span.Attributes = r.room[:0]
	return r
}

// Serve begins the span of a request, as Begin does. The program passes it on by values with two addresses: see Pass.
func (t *Tracker) Serve(r *Served, passed [2]uint64) {
	t.begin(&r.Span, r, nil)
	if r.Span.Work == nil { // a request in another one of the same goroutine
		t.Pass(&r.Span, passed[:]...)
		return
	}
	r.passed = passed
	t.passed.wait(r)
}

// endServed removes what is kept of a request that was passed on, and keeps its memory for another one if nothing refers to it.
func (t *Tracker) endServed(r *Served) {
	s := &r.Span
	t.passed.remove(r)
	if !t.opt.Reuse {
		return
	}
	if t.kept[s] {
		delete(t.kept, s)
		return
	}
	if t.heirs[s] == 0 && len(t.reusable) < maxReusable {
		t.reusable = append(t.reusable, r)
	}
}

// keep notes that something refers to an open span, possibly for longer than it is open: its memory cannot be used for another one.
func (t *Tracker) keep(s *spans.Span) {
	if t.opt.Reuse && s.Work != nil {
		t.kept[s] = true
	}
}
