package live

import (
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// world is a simulated program: a machine, a clock that advances only in pass, and a sampler.
type world struct {
	machine *sched.Machine
	now     int64
	sampler *Sampler
}

func newWorld() *world {
	w := &world{machine: sched.New(sched.Options{History: 1000}), now: time.Date(2026, 3, 1, 14, 3, 5, 0, time.UTC).UnixNano()}
	w.sampler = NewSampler(w.machine, SamplerOptions{Clock: func() int64 { return w.now }, Health: func() Health { return Health{} }, Window: time.Second / 2})
	return w
}

func (w *world) apply(e event.Event) {
	e.Time = w.now
	w.machine.Apply(&e)
}

func (w *world) pass(d time.Duration) { w.now += int64(d) }

// The origin and the stacks of goroutines in tests.
var (
	atSearch   = event.Frame{Func: "example.com/shop/search.All", File: "/src/shop/search/search.go", Line: 33}
	atReplica  = event.Frame{Func: "example.com/shop/search.askReplica", File: "/src/shop/search/search.go", Line: 52}
	stackMake  = &event.Stack{Frames: []event.Frame{atSearch}}
	stackSend  = &event.Stack{Frames: []event.Frame{atReplica}}
	leakOrigin = &event.Origin{CreatedBy: atSearch, Start: atReplica}
)
