package join

import (
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

func (w *world) lose() { w.event(event.Lost, 0, nil) }

// TestUncertain checks which requests have an uncertain breakdown after a loss of events.
func TestUncertain(t *testing.T) {
	gap := false
	for _, c := range []struct {
		name      string
		during    func(w *world)
		uncertain bool
	}{
		{name: "no loss", during: func(w *world) { w.block(1, "sleep") }},
		{name: "a loss", during: (*world).lose, uncertain: true},
		{name: "in a gap", during: func(*world) { gap = true }, uncertain: true},
		{name: "an event that does not fit", during: func(w *world) {
			w.block(1, "sleep")
			w.block(1, "sleep")
		}, uncertain: true},
		{name: "an event of a child that does not fit", during: func(w *world) {
			w.create(2, 1)
			w.event(event.GoStop, 2, nil)
		}, uncertain: true},
		{name: "a P lost in a system call", during: func(w *world) {
			w.event(event.GoSyscallBegin, 1, nil)
			w.event(event.GoSyscallEnd, 1, nil)
			w.event(event.GoStart, 1, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.InGap = func() bool { return gap } })
			gap = false
			w.lose()
			s := w.begin(1, server, "request")
			c.during(w)
			w.end(s)
			if s.Work.Uncertain != c.uncertain || s.Work.Own.Total() != time.Duration(s.End-s.Start) {
				t.Errorf("uncertain: %v, want %v; %v", s.Work.Uncertain, c.uncertain, s.Work.Own)
			}
			marked := slices.ContainsFunc(s.AllAttributes(), func(kv attribute.KeyValue) bool { return kv.Key == "loupe.go.uncertain" })
			if n := w.tracker.Counts().Uncertain; marked != c.uncertain || (n == 1) != c.uncertain {
				t.Errorf("an attribute: %v; %d counted", marked, n)
			}
		})
	}
}

// TestLossAndParents checks that after a loss a goroutine does not belong to a span that has ended: it may have waited for other work.
func TestLossAndParents(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w := newWorld(t, nil)
		request := w.begin(1, server, "request")
		w.create(2, 1)
		if ended {
			w.end(request)
		}
		w.lose()
		s := w.begin(2, client, "work")
		if child := isChild(s, request, spans.RuleCreator); child == ended {
			t.Errorf("the request has ended: %v; the goroutine belongs to it: %v", ended, child)
		}
	}
}

// TestLostEnd checks that a goroutine that ends after a loss is not reported as one that has panicked.
func TestLostEnd(t *testing.T) {
	w := newWorld(t, nil)
	w.begin(1, server, "request")
	w.lose()
	w.event(event.GoDestroy, 1, nil)
	w.begin(2, server, "panics")
	w.event(event.GoDestroy, 2, nil)
	if len(w.ended) != 2 || w.ended[0].Ending != spans.Unobserved || w.ended[0].Message != "" || w.ended[1].Ending != spans.Panicked {
		t.Errorf("%+v", w.ended)
	}
}

// TestLostDeath ends the spans of goroutines whose end was lost, and only those.
func TestLostDeath(t *testing.T) {
	var alive []uint64
	calls := 0
	w := newWorld(t, nil)
	w.tracker.opt.Alive = func() ([]uint64, int64, error) {
		calls++
		return alive, w.now + int64(10*time.Millisecond), nil
	}
	w.now = 5 * checkEvery
	dead := w.begin(1, server, "dead")
	w.create(3, 1)
	ending := w.begin(2, server, "its end is in the buffer")
	living := w.begin(4, server, "living")
	alive = []uint64{4}
	w.lose()
	w.lose()
	w.end(ending)
	if len(w.ended) != 1 {
		t.Fatalf("%d spans have ended before the time at which their goroutines were dead", len(w.ended))
	}
	w.now += int64(20 * time.Millisecond)
	w.begin(5, server, "later")
	w.event(event.GoStop, 5, nil)
	if len(w.ended) != 2 || w.ended[1] != dead || dead.Ending != spans.Unobserved || living.End != 0 {
		t.Errorf("%+v", w.ended)
	}
	if got := len(w.tracker.goroutines); got != 2 {
		t.Errorf("%d goroutines are kept", got)
	}
	slices.Sort(w.released)
	if !slices.Equal(slices.Compact(w.released), []uint64{1, 3}) {
		t.Errorf("released %v", w.released)
	}
	if calls != 1 {
		t.Errorf("%d calls of Alive", calls)
	}
}

// TestSupersede begins a request on a goroutine on which the end of another one was lost.
func TestSupersede(t *testing.T) {
	w := newWorld(t, nil)
	first := w.begin(1, server, "first")
	w.lose()
	w.block(1, "IO wait")
	at := w.tick()
	w.tracker.Supersede(first, at)
	second := w.tracker.Begin(&spans.Span{G: 1, Library: "lib", Kind: server, Name: "second", Start: at})
	w.end(second)
	if first.Ending != spans.Unobserved || first.End != at || !first.Work.Uncertain || first.Work.Own.Total() != time.Duration(at-first.Start) {
		t.Errorf("first %+v, %+v", first, first.Work)
	}
	if second.Ending != spans.Returned || second.Work == nil || second.Work.Uncertain || second.Work.Own != (spans.Times{spans.Running: time.Millisecond}) {
		t.Errorf("second %+v, %+v", second, second.Work)
	}
}

// TestLostP checks that the time between the end of a system call and the next start is that of a wait for a P.
func TestLostP(t *testing.T) {
	w := newWorld(t, nil)
	s := w.begin(1, server, "request")
	for _, kind := range []event.Kind{event.GoSyscallBegin, event.GoSyscallEnd, event.GoStart} {
		w.event(kind, 1, nil)
	}
	w.end(s)
	const ms = time.Millisecond
	if want := (spans.Times{spans.Running: 2 * ms, spans.Syscall: ms, spans.Runnable: ms}); s.Work.Own != want {
		t.Errorf("%v, want %v", s.Work.Own, want)
	}
}
