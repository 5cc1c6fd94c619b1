package writer

import (
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// transitionKinds has what the transitions of a trace are called in a stream.
var transitionKinds = map[[2]xtrace.GoState]event.Kind{
	{xNone, xRunnable}: event.GoCreate, {xNone, xWaiting}: event.GoCreate, {xRunnable, xRunning}: event.GoStart,
	{xRunning, xRunnable}: event.GoStop, {xRunning, xWaiting}: event.GoBlock, {xWaiting, xRunnable}: event.GoUnblock,
	{xRunning, xNone}: event.GoDestroy,
}

var transitionStates = map[xtrace.GoState]event.State{
	xRunnable: event.StateRunnable, xRunning: event.StateRunning, xWaiting: event.StateWaiting,
}

// TestWriterTotals holds what package sched finds in a trace against what it finds in the stream that the trace was made of.
func TestWriterTotals(t *testing.T) {
	s := newSimulation(9, simOptions{procs: 4, known: true, noCalls: true}).run(4000)
	data, stats := writeAll(t, s.events, Options{Generation: 20 * time.Millisecond})
	before, after := sched.New(sched.Options{}), sched.New(sched.Options{})
	for i := range s.events {
		before.Apply(&s.events[i])
	}
	n := 0
	readAll(t, data, func(ev xtrace.Event) {
		if ev.Kind() != xtrace.EventStateTransition || ev.StateTransition().Resource.Kind != xtrace.ResourceGoroutine {
			return
		}
		tr := ev.StateTransition()
		from, to := tr.Goroutine()
		e := event.Event{Time: int64(ev.Time()), G: uint64(tr.Resource.Goroutine()), By: xGoID(ev.Goroutine()), Reason: tr.Reason}
		switch {
		case from == to:
			return
		case from == xtrace.GoUndetermined:
			e.Kind, e.State, e.Time = event.GoStatus, transitionStates[to], s.events[0].Time
		default:
			e.Kind = transitionKinds[[2]xtrace.GoState{from, to}]
			if to == xWaiting {
				e.State = event.StateWaiting
			}
		}
		n++
		after.Apply(&e)
	})
	before.Advance(s.now)
	after.Advance(s.now)
	b, a := before.Totals(), after.Totals()
	if b.Live != a.Live || b.Created != a.Created || b.Ended != a.Ended || b.AtStart != a.AtStart || b.Lived != a.Lived || b.States != a.States ||
		b.Repairs != a.Repairs || b.Created < 50 {
		t.Errorf("totals %+v, of the stream %+v", a, b)
	}
	allowed := time.Duration(n) * (stats.MaxMove + 10)
	near := func(what string, a, b time.Duration) {
		t.Helper()
		if d := a - b; d > allowed || -d > allowed || b == 0 {
			t.Errorf("%s: %v, in the stream %v", what, a, b)
		}
	}
	bt, at := b.Time(), a.Time()
	near("running", at.Running.Duration(), bt.Running.Duration())
	near("runnable", at.Runnable.Duration(), bt.Runnable.Duration())
	near("blocked", at.Blocked.Duration(), bt.Blocked.Duration())
	bl, al := before.Latency(), after.Latency()
	for _, h := range []struct {
		what   string
		in, of *sched.Histogram
	}{{"created", &al.Created, &bl.Created}, {"woken", &al.Woken, &bl.Woken}, {"stopped", &al.Stopped, &bl.Stopped}} {
		near(h.what, h.in.Sum().Duration(), h.of.Sum().Duration())
		if h.in.Count() != h.of.Count() {
			t.Errorf("%s: %d latencies, in the stream %d", h.what, h.in.Count(), h.of.Count())
		}
	}
}
