package memtrace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// trace is one call of Trace, and its Context.
type trace struct {
	context.Context                         // canceled when a limit is passed, and at the end
	cancelCause     context.CancelCauseFunc // of it

	within      []*trace   // the traces that its counts belong to: itself first, and all around it
	gauges      gaugeLists // of all these
	limits      []*gauge   // its own
	cell        *cell      // of the goroutine that called Trace
	descendants bool       // goroutines that its goroutines start count, too
	bubble      bool       // belongs to a bubble of testing/synctest: only its goroutines may cancel it
	stops       []func() bool

	mu    sync.Mutex
	cells []entry // goroutines that count into it now
	past  usage   // of those that did before, and by hand

	ended atomic.Bool
	final usage // set before ended
}

// gaugeLists are the gauges that a cell counts into, as the hook wants them: each list ends with nil.
type gaugeLists struct {
	all              []*gauge
	byBytes, byCalls **gauge
}

func newGaugeLists(all []*gauge) gaugeLists {
	lists := gaugeLists{all: all}
	list := func(chosen func(kind) bool) **gauge {
		var l []*gauge
		for _, g := range all {
			if chosen(g.err.kind) {
				l = append(l, g)
			}
		}
		if l == nil {
			return nil
		}
		return &append(l, nil)[0]
	}
	lists.byBytes = list(func(k kind) bool { return k == bytesUsed })
	lists.byCalls = list(func(k kind) bool { return k != bytesUsed })
	return lists
}

type contextKey struct{}

func fromContext(ctx context.Context) (*trace, bool) {
	t, ok := ctx.Value(contextKey{}).(*trace)
	return t, ok
}

// newTrace makes a trace for the calling goroutine, which counts into a cell already, or nil.
func newTrace(ctx context.Context, o *settings, now *cell) *trace {
	t := &trace{descendants: o.descendants, bubble: inBubble()}
	t.within = append(make([]*trace, 0, 4), t)
	var around []*trace // that ctx is not derived from
	outer, ok := fromContext(ctx)
	for ok {
		if !outer.ended.Load() {
			t.within = append(t.within, outer.within...)
			break
		}
		outer, ok = fromContext(outer.Context)
	}
	if now != nil {
		for i := range now.members {
			if m := now.members[i].trace.Load(); m != nil && !slices.Contains(t.within, m) {
				t.within, around = append(t.within, m), append(around, m)
			}
		}
	}
	t.Context, t.cancelCause = context.WithCancelCause(ctx)
	t.Context.Done() // makes the channel, which the goroutine would be charged for
	for k := range kinds {
		if n := o.limits[k]; n > 0 {
			t.limits = append(t.limits, newGauge(t, k, n-1))
		}
	}
	var all []*gauge
	for _, w := range t.within {
		all = append(all, w.limits...)
	}
	if len(all) > 0 {
		if !t.bubble {
			watch()
		}
		t.gauges = newGaugeLists(all)
	}
	for _, a := range around {
		if !t.bubble || a.bubble {
			t.stops = append(t.stops, context.AfterFunc(a.Context, func() { t.cancelCause(context.Cause(a.Context)) }))
		}
	}
	t.cell = newCell(t.within, t.gauges)
	return t
}

// end ends a trace, on the goroutine that has called Trace.
func (t *trace) end(before *cell) {
	t.cell.detach()
	t.close()
	for _, stop := range t.stops {
		stop()
	}
	t.check()
	t.cancelCause(nil)
	for _, g := range t.limits {
		g.trace.Store(nil)
	}
	goroutines.swap(getg(), before)
}

// close makes the counts final. Goroutines that are still running go on to count, but do not keep the trace in memory.
func (t *trace) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.final = t.past
	for _, e := range t.cells {
		t.final.add(e.cell.usage())
		e.member.trace.Store(nil)
	}
	t.cells = nil
	t.ended.Store(true)
}

// remove removes the cell of a goroutine that has ended from the list, unless the trace has ended.
func (t *trace) remove(m *member, u usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.trace.Load() == nil {
		return
	}
	t.past.add(u)
	last := len(t.cells) - 1
	t.cells[m.at] = t.cells[last]
	t.cells[m.at].member.at = m.at
	t.cells[last] = entry{}
	t.cells = t.cells[:last]
}

func (t *trace) cancel(err *LimitError) { t.cancelCause(err) }

// usage returns the sum of all goroutines. Each count is read once, while others may be changing.
func (t *trace) usage() usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.past
	for _, e := range t.cells {
		sum.add(e.cell.usage())
	}
	return sum
}

func (t *trace) now() usage {
	if t.ended.Load() {
		return t.final
	}
	return t.usage()
}

// Used implements Context.
func (t *trace) Used() (bytes, objects, calls int64) {
	u := t.now()
	return u.bytes, u.objects, u.calls
}

// Elements implements Context.
func (t *trace) Elements() int64 { return t.now().elements }

// Add implements Context.
func (t *trace) Add(bytes, objects, calls int64) {
	if t.ended.Load() {
		return
	}
	u := usage{max(bytes, 0), max(objects, 0), max(calls, 0), max(objects, 0)}
	for _, w := range t.within {
		w.mu.Lock()
		w.past.add(u)
		w.mu.Unlock()
	}
	for _, g := range t.gauges.all {
		g.add([kinds]int64{u.bytes, u.objects, u.calls}[g.err.kind])
	}
}

// check cancels the context if a limit was passed, its own or that of a trace around it.
func (t *trace) check() {
	for _, g := range t.gauges.all {
		if g.passed() {
			t.cancel(&g.err)
		}
	}
}

// Done implements context.Context.
func (t *trace) Done() <-chan struct{} {
	if !t.ended.Load() {
		t.check()
	}
	return t.Context.Done()
}

// Err implements context.Context. If a limit was passed, it returns a [*LimitError].
func (t *trace) Err() error {
	if !t.ended.Load() {
		t.check()
	}
	err := t.Context.Err()
	if err == nil {
		return nil
	}
	var limit *LimitError
	if errors.As(context.Cause(t.Context), &limit) {
		return limit
	}
	return err
}

// Value implements context.Context.
func (t *trace) Value(key any) any {
	if key == (contextKey{}) {
		return t
	}
	return t.Context.Value(key)
}
