package join

import (
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// TestAllocated has a request, goroutines that it starts, and a later request of the same goroutine allocate.
func TestAllocated(t *testing.T) {
	var ended []*spans.Span
	tr := NewTracker(Options{Handle: func(s *spans.Span) { ended = append(ended, s) }, Kinds: event.KindsGoroutine})
	tr.CountAllocations()
	begin := func(at int64, sums ...uint64) *spans.Span {
		tr.Allocated(3, sums[0], sums[1])
		return tr.Begin(&spans.Span{G: 3, Start: at, Kind: trace.SpanKindServer, Library: "test"})
	}
	expect := func(s *spans.Span, bytes, objects uint64) {
		t.Helper()
		if got := *s.Work.Allocated; got != (spans.Allocations{Bytes: bytes, Objects: objects}) {
			t.Errorf("allocated %+v, want %d bytes in %d objects", got, bytes, objects)
		}
	}
	first := begin(10, 100, 1) // before the request
	tr.Event(&event.Event{Time: 11, Kind: event.GoCreate, G: 4, Parent: 3})
	tr.Event(&event.Event{Time: 12, Kind: event.GoCreate, G: 5, Parent: 4})
	tr.Allocated(4, 1000, 10)
	tr.Event(&event.Event{Time: 13, Kind: event.GoDestroy, G: 4})
	tr.Allocated(5, 20, 2)
	tr.Event(&event.Event{Time: 14, Kind: event.GoBlock, G: 5, Reason: "chan receive"})
	tr.Allocated(9, 1<<30, 1<<20) // of another request
	tr.Allocated(3, 150, 5)
	tr.Event(&event.Event{Time: 15, Kind: event.GoBlock, G: 3, Reason: "sleep"})
	tr.Allocated(3, 160, 4) // the number of objects did not fit into a record
	tr.End(first, 20)
	tr.Allocated(5, 2000, 200) // after the end
	tr.Event(&event.Event{Time: 21, Kind: event.GoDestroy, G: 5})
	expect(first, 60+1000+20, 4+10+2)

	second := begin(30, 0, 0) // listed anew
	tr.Allocated(3, 7, 1)
	tr.End(second, 40)
	expect(second, 7, 1)

	third := begin(50, 0, 0)
	tr.Allocated(3, 8, 1)
	tr.Allocated(3, 3, 1) // listed anew, although the request goes on
	tr.End(third, 60)
	expect(third, 8+3, 2)
	if len(ended) != 3 {
		t.Errorf("%d spans", len(ended))
	}
}

// TestAllocatedOff has no sums unless allocations are counted.
func TestAllocatedOff(t *testing.T) {
	tr := NewTracker(Options{Handle: func(*spans.Span) {}})
	s := tr.Begin(&spans.Span{G: 3, Start: 10, Kind: trace.SpanKindServer})
	tr.Allocated(3, 100, 1)
	tr.End(s, 20)
	if s.Work.Allocated != nil {
		t.Errorf("%+v", s.Work.Allocated)
	}
}
