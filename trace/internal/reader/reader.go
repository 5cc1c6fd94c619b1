package reader

import (
	"io"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/order"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Reader makes events of a trace of Go 1.22 or later.
type Reader struct {
	md     *order.Model
	loader *generation.Loader
	gen    *generation.Generation
	err    error

	last int64 // the last event's time, which increases
	// wall is the difference between wall time and the trace's time, as the first generation has it. Later ones differ when
	// the clock was set; the stream's time does not jump then.
	wall int64

	limit   *int64 // trace.Reader.MaxMemory
	intern  *Intern
	reasons []Reason // by the index of a string in the generation's list
	frames  []event.Frame

	part *Part
}

// New returns a Reader for a trace of a version, whose header has been read. limit is what memory.Limit takes, and is used
// from the first event on.
func New(in *generation.Input, v raw.Version, limit *int64) *Reader {
	return &Reader{
		md:     order.New(v, nil),
		loader: generation.NewLoader(in, v, 0),
		intern: NewIntern(),
		limit:  limit,
	}
}

// Fill appends events to part, as many as there is room for, and counts them.
func (r *Reader) Fill(part *Part) error {
	r.part = part
	r.loader.Memory = memory.Limit(*r.limit)
	before := len(part.Events)
	defer func() { part.Stats.Events += uint64(len(part.Events) - before) }()
	for steps := 0; len(part.Events) <= cap(part.Events)-partRoom; steps++ {
		if steps%PartSize == 0 && r.gen != nil && !r.fits() {
			return r.loader.Over
		}
		if r.gen == nil {
			if err := r.begin(); err != nil {
				return err
			}
		}
		switch step, c := r.md.Step(); step {
		case order.StepEvent:
			r.event(c)
		case order.StepSample:
			r.sample(&r.md.Samples[0])
			r.md.Samples = r.md.Samples[1:]
		case order.StepEnd:
			r.end()
			if len(part.Events) > 0 {
				return nil // the next generation may take a while to come
			}
		default:
			return r.md.Judge.Failed
		}
	}
	return nil
}

// begin takes the next generation.
func (r *Reader) begin() error {
	if r.err != nil {
		return r.err
	}
	g, err := r.loader.Next()
	if err != nil {
		if r.err = err; err == io.EOF {
			r.part.Stats.Syncs++
		}
		return r.err
	}
	if r.md.Begun == 0 && g.Clock.HasSnapshot {
		r.wall = g.Clock.Wall()
	}
	r.gen = g
	r.part.Stats.Generations++
	r.part.Stats.Syncs++
	r.time(g.Clock.Nanos(g.MinTime)) // readers have an event of their own here
	if n := len(g.Strings.List); n <= cap(r.reasons) {
		r.reasons = r.reasons[:n]
		clear(r.reasons)
	} else {
		r.reasons = make([]Reason, n)
	}
	if !r.md.Begin(g) {
		return r.md.Judge.Failed
	}
	return nil
}

// end gives back a generation.
func (r *Reader) end() {
	g := r.gen
	r.gen = nil
	r.intern.Generation()
	r.loader.Release(g)
}

// time returns the time of an event, which is later than that of the event before.
func (r *Reader) time(t int64) int64 {
	if t <= r.last {
		t = r.last + 1
	}
	r.last = t
	return t + r.wall
}

// add adds an event that happened in a context.
func (r *Reader) add(kind event.Kind, time int64, ctx *order.Context, g uint64) *event.Event {
	tid, p := ThreadID(ctx.M), ProcOf(ctx.P)
	part := r.part
	n := len(part.Events)
	part.Events = part.Events[:n+1]
	e := &part.Events[n]
	*e = event.Event{}
	e.Time, e.Kind, e.TID, e.P, e.G = time, kind, tid, p, g
	return e
}

// event makes events of one of the model.
func (r *Reader) event(c *order.Cursor) {
	ctx := &r.md.Context
	t := r.time(c.Time)
	switch c.Kind {
	case raw.EvGoStart:
		r.add(event.GoStart, t, ctx, c.Args[0])
	case raw.EvGoBlock:
		e := r.add(event.GoBlock, t, ctx, ctx.G)
		e.Stack = r.stack(c.Args[1])
		r.blockReason(e, c.Args[0], c.Args[1])
	case raw.EvGoUnblock:
		e := r.add(event.GoUnblock, t, ctx, c.Args[0])
		e.By, e.Stack = GoID(ctx.G), r.stack(c.Args[2])
	case raw.EvGoStop:
		e := r.add(event.GoStop, t, ctx, ctx.G)
		e.Reason, e.Stack = r.name(c.Args[0]), r.stack(c.Args[1])
	case raw.EvGoSyscallBegin:
		r.add(event.GoSyscallBegin, t, ctx, ctx.G).Stack = r.stack(c.Args[1])
		c.Thread.G.Since = t
	case raw.EvGoSyscallEnd:
		r.add(event.GoSyscallEnd, t, ctx, ctx.G).Value = r.syscallTime(c, t)
	case raw.EvHeapAlloc:
		r.add(event.HeapAlloc, t, ctx, 0).Value = Int64(c.Args[0])
	case raw.EvHeapGoal:
		r.add(event.HeapGoal, t, ctx, 0).Value = Int64(c.Args[0])
	case raw.EvGoCreate, raw.EvGoCreateBlocked:
		e := r.add(event.GoCreate, t, ctx, c.Args[0])
		e.Parent, e.Stack, e.Origin = GoID(ctx.G), r.stack(c.Args[2]), r.origin(c.Args[2], c.Args[1])
		if c.Kind == raw.EvGoCreateBlocked {
			e.State = event.StateWaiting
		}
	case raw.EvGoDestroy:
		r.add(event.GoDestroy, t, ctx, ctx.G)
	default:
		r.rareEvent(c, t)
	}
}

// rareEvent is event for the types of which there are few.
func (r *Reader) rareEvent(c *order.Cursor, t int64) {
	ctx := &r.md.Context
	switch c.Kind {
	case raw.EvGoSwitch, raw.EvGoSwitchDestroy:
		r.goSwitch(c, t)
	case raw.EvGoSyscallEndBlocked:
		e := r.add(event.GoSyscallEnd, t, ctx, ctx.G)
		e.Value, e.State = r.syscallTime(c, t), event.StateRunnable
	case raw.EvGoStatus, raw.EvGoStatusStack:
		r.goStatus(c, t)
	case raw.EvGoCreateSyscall:
		r.add(event.GoCreate, t, ctx, c.Args[0]).Parent = GoID(ctx.G)
		r.add(event.GoStart, t, ctx, c.Args[0])
		r.add(event.GoSyscallBegin, t, ctx, c.Args[0])
		c.Thread.G.Since = t
	case raw.EvGoDestroySyscall:
		if r.md.StolenProc { // readers have an event of their own for that
			r.part.Stats.Procs++
			t = r.time(c.Time)
		}
		r.add(event.GoSyscallEnd, t, ctx, ctx.G)
		r.add(event.GoDestroy, t, ctx, ctx.G)
	case raw.EvSTWBegin:
		e := r.add(event.STWBegin, t, ctx, ctx.G)
		e.Reason, e.Stack = r.name(c.Args[0]), r.stack(c.Args[1])
	case raw.EvSTWEnd:
		r.add(event.STWEnd, t, ctx, 0)
	case raw.EvGCBegin:
		r.add(event.GCBegin, t, ctx, GoID(ctx.G)).Stack = r.stack(c.Args[1])
	case raw.EvGCEnd:
		r.add(event.GCEnd, t, ctx, 0)
	case raw.EvGCMarkAssistBegin:
		r.add(event.GCMarkAssistBegin, t, ctx, ctx.G).Stack = r.stack(c.Args[0])
	case raw.EvGCMarkAssistEnd:
		r.add(event.GCMarkAssistEnd, t, ctx, ctx.G)
	default:
		if !r.userEvent(c, t) {
			r.count(c.Kind)
		}
	}
}

// count counts an event that has no counterpart.
func (r *Reader) count(kind raw.Type) {
	s := &r.part.Stats
	switch kind {
	case raw.EvProcStart, raw.EvProcStop, raw.EvProcSteal, raw.EvProcStatus:
		s.Procs++
	case raw.EvProcsChange:
		s.MaxProcs++
	case raw.EvGCActive:
		s.GCActive++
	case raw.EvGCSweepActive, raw.EvGCSweepBegin, raw.EvGCSweepEnd:
		s.Sweeps++
	case raw.EvGCMarkAssistActive:
		s.MarkAssists++
	case raw.EvGoLabel:
		s.Labels++
	default:
		s.Experiments++
	}
}

// goSwitch makes the events of a coroutine that hands over to another one.
func (r *Reader) goSwitch(c *order.Cursor, t int64) {
	ctx := &r.md.Context
	r.add(event.GoUnblock, t, ctx, c.Args[0]).By = ctx.G
	if c.Kind == raw.EvGoSwitch {
		r.add(event.GoBlock, r.time(c.Time), ctx, ctx.G).Reason = Coroutine
	} else {
		r.add(event.GoDestroy, r.time(c.Time), ctx, ctx.G)
	}
	r.add(event.GoStart, r.time(c.Time), ctx, c.Args[0])
}

// goStatus makes the event of a goroutine's first status.
func (r *Reader) goStatus(c *order.Cursor, t int64) {
	if !r.md.FirstStatus {
		r.part.Stats.Statuses++
		return
	}
	e := r.add(event.GoStatus, t, &r.md.Context, c.Args[0])
	e.State = state(order.Status(c.Args[2]))
	stack := uint64(0)
	if c.Kind == raw.EvGoStatusStack {
		stack = c.Args[3]
		e.Stack = r.stack(stack)
	}
	e.Origin = r.rootOrigin(e.G, stack)
}

func state(s order.Status) event.State {
	switch s {
	case order.GoRunnable:
		return event.StateRunnable
	case order.GoRunning:
		return event.StateRunning
	case order.GoSyscall:
		return event.StateSyscall
	case order.GoWaiting:
		return event.StateWaiting
	}
	return ""
}

// syscallTime returns how long the system call has taken that a thread's goroutine comes back from; 0 if its begin is not
// in the trace.
func (r *Reader) syscallTime(c *order.Cursor, now int64) int64 {
	g := c.Thread.G
	if g.ID != r.md.Context.G || g.Since == 0 {
		return 0
	}
	d := now - g.Since
	g.Since = 0
	return d
}

// userEvent makes the events that tell what the program has said. It returns false for other ones.
func (r *Reader) userEvent(c *order.Cursor, t int64) bool {
	ctx := &r.md.Context
	switch c.Kind {
	case raw.EvUserTaskBegin:
		e := r.add(event.UserTaskBegin, t, ctx, ctx.G)
		e.Value, e.Object, e.Text, e.Stack = int64(c.Args[0]), GoID(c.Args[1]), r.text(c.Args[2]), r.stack(c.Args[3])
	case raw.EvUserTaskEnd:
		e := r.add(event.UserTaskEnd, t, ctx, ctx.G)
		e.Value, e.Stack = int64(c.Args[0]), r.stack(c.Args[1])
	case raw.EvUserRegionBegin, raw.EvUserRegionEnd:
		kind := event.UserRegionBegin
		if c.Kind == raw.EvUserRegionEnd {
			kind = event.UserRegionEnd
		}
		e := r.add(kind, t, ctx, ctx.G)
		e.Value, e.Text, e.Stack = int64(c.Args[0]), r.text(c.Args[1]), r.stack(c.Args[2])
	case raw.EvUserLog:
		category, message := r.name(c.Args[1]), r.text(c.Args[2])
		if n, ok := LostEvents(category, message); ok {
			r.add(event.Lost, t, &order.Context{M: generation.None, P: generation.None, G: generation.None}, 0).Value = n
			break
		}
		if kind, n, ok := Counter(category, message); ok {
			r.add(kind, t, ctx, 0).Value = n
			break
		}
		e := r.add(event.UserLog, t, ctx, ctx.G)
		e.Value, e.Reason, e.Text, e.Stack = int64(c.Args[0]), category, message, r.stack(c.Args[3])
	default:
		return false
	}
	return true
}

// sample makes the event of a sample of the CPU profiler.
func (r *Reader) sample(s *generation.Sample) {
	e := r.add(event.CPUSample, r.time(s.Time), &order.Context{M: s.M, P: s.P}, s.G)
	e.Stack = r.stack(s.Stack)
}

// fits reports whether the generation and what is alive fit into memory.
func (r *Reader) fits() bool {
	r.loader.State = r.md.Memory()
	return r.loader.Fits()
}
