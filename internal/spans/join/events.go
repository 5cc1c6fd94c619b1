package join

import (
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/spans"
)

// Event takes an event. It returns false if that is not one of a goroutine in a span.
func (t *Tracker) Event(e *event.Event) bool {
	t.bury(e.Time)
	t.now = max(t.now, e.Time)
	t.releaseIdle()
	t.passHeld(maxHeld)
	if e.Kind == event.GoDestroy {
		delete(t.leaving.since, e.G)
	}
	switch e.Kind {
	case event.GoCreate:
		t.create(e)
		return true
	case event.Lost:
		t.lose(e.Time)
		return true
	case event.GoUnblock:
		if t.goroutine(e.G) == nil {
			t.handOff(e)
			return false
		}
	}
	g := t.goroutine(e.G)
	if g == nil {
		return true
	}
	g.check(e, &t.rules)
	switch e.Kind {
	case event.GoDestroy:
		g.spend(e.Time)
		t.exit(g, e.Time)
		return true
	case event.GoBlock:
		if g.idle(e) {
			t.remove(g)
			t.disown(e.G)
			return true
		}
		g.sending = 0
		if e.Reason == "chan send" {
			g.sending = e.Object
		}
	case event.GoUnblock:
		g.release(e)
		t.taken(g, e)
	case event.GoStart, event.GoStop, event.GoSyscallBegin, event.GoSyscallEnd:
	default:
		return true
	}
	g.spend(e.Time)
	g.enter(e)
	return true
}

// check compares an event with the state of the goroutine before it.
func (g *goroutine) check(e *event.Event, rules *gostate.Rules) {
	if e.Kind == event.GoStart && g.returned { // it lost its P during the call, and has waited for another one
		g.state, g.class = gostate.Runnable, spans.Runnable
	}
	if g.request != nil && rules.Fit[e.Kind][g.state] == gostate.Misfit {
		g.request.span.Work.Uncertain = true
	}
}

// create notes a goroutine that was created in a span.
func (t *Tracker) create(e *event.Event) {
	creator := t.goroutine(e.Parent)
	if creator == nil {
		t.disown(e.G) // the probes follow it, because they follow its creator, which may have been in a request
		return
	}
	scope, _ := t.scope(creator)
	if scope == nil && creator.request == nil {
		t.settle(creator, true)
		return
	}
	if e.Origin != nil && e.Origin.System {
		t.release(e.G) // it belongs to the runtime
		return
	}
	g := t.add(e.G, e.Time)
	t.inherit(g, scope)
	g.created, g.within, g.since, g.listed = t.loss.count, true, e.Time, true
	g.enter(e)
	if r := creator.request; r != nil {
		g.request, g.child = r, true
		r.children = append(r.children, g)
		if t.waits {
			r.span.Work.Created++
		}
	}
}

// Unwind takes the end of a goroutine that executes its deferred functions: those in which it was have returned, panicked or called
// runtime.Goexit. Its end is not necessarily observed.
func (t *Tracker) Unwind(id uint64, at int64) {
	g := t.goroutine(id)
	if g == nil {
		return
	}
	listed := g.listed
	g.spend(at)
	t.exit(g, at)
	if listed {
		t.leave(id)
	}
}

// exit ends the spans of a goroutine that has ended. If events were lost, their own ends may be among these. What another goroutine does
// for an operation that was sent goes on.
func (t *Tracker) exit(g *goroutine, at int64) {
	for _, s := range slices.Backward(g.open) {
		if call := t.calls[s]; !call && (t.entered[s] || s.Work == nil && t.heirs[s] > 0) {
			continue
		}
		delete(t.entered, s)
		delete(t.calls, s)
		ending := spans.Unobserved
		_, presumed := t.presumed[s]
		switch {
		case presumed || t.lostSince(g.losses):
		case s.Kind == trace.SpanKindConsumer: // this is how the last message of a goroutine ends
			ending = spans.Returned
		default:
			ending = spans.Panicked
			s.Fail("goroutine ended by a panic or by runtime.Goexit")
		}
		t.abandon(g, s, at, ending)
	}
	g.open = g.open[:0]
	t.remove(g)
}
