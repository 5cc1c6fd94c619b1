package trace

import (
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A readModel makes events of a trace of Go 1.22 or later.
type readModel struct {
	md     *model
	loader *modelLoader
	gen    *modelGeneration
	err    error

	last int64 // the last event's time, which increases
	// wall is the difference between wall time and the trace's time, as the first generation has it. Later ones differ when
	// the clock was set; the stream's time does not jump then.
	wall int64

	limit   *int64 // Reader.MaxMemory
	intern  *readIntern
	reasons []readReason // by the index of a string in the generation's list
	frames  []event.Frame

	part *readPart
}

func newReadModel(in *modelInput, v raw.Version, limit *int64) *readModel {
	return &readModel{
		md:     newModel(v, nil),
		loader: newModelLoader(in, v, 0),
		intern: newReadIntern(),
		limit:  limit,
	}
}

// fill implements readSource.
func (r *readModel) fill(part *readPart) error {
	r.part = part
	r.loader.memory = memoryLimit(*r.limit)
	before := len(part.events)
	defer func() { part.stats.Events += uint64(len(part.events) - before) }()
	for steps := 0; len(part.events) <= cap(part.events)-readPartRoom; steps++ {
		if steps%readPartSize == 0 && r.gen != nil && !r.fits() {
			return r.loader.over
		}
		if r.gen == nil {
			if err := r.begin(); err != nil {
				return err
			}
		}
		switch step, c := r.md.step(); step {
		case modelStepEvent:
			r.event(c)
		case modelStepSample:
			r.sample(&r.md.samples[0])
			r.md.samples = r.md.samples[1:]
		case modelStepEnd:
			r.end()
			if len(part.events) > 0 {
				return nil // the next generation may take a while to come
			}
		default:
			return r.md.judge.failed
		}
	}
	return nil
}

// begin takes the next generation.
func (r *readModel) begin() error {
	if r.err != nil {
		return r.err
	}
	g, err := r.loader.next()
	if err != nil {
		if r.err = err; err == io.EOF {
			r.part.stats.Syncs++
		}
		return r.err
	}
	if r.md.begun == 0 && g.clock.hasSnapshot {
		r.wall = g.clock.wall()
	}
	r.gen = g
	r.part.stats.Generations++
	r.part.stats.Syncs++
	r.time(g.clock.nanos(g.minTime)) // readers have an event of their own here
	if n := len(g.strings.list); n <= cap(r.reasons) {
		r.reasons = r.reasons[:n]
		clear(r.reasons)
	} else {
		r.reasons = make([]readReason, n)
	}
	if !r.md.begin(g) {
		return r.md.judge.failed
	}
	return nil
}

// end gives back a generation.
func (r *readModel) end() {
	g := r.gen
	r.gen = nil
	r.intern.generation()
	r.loader.release(g)
}

// time returns the time of an event, which is later than that of the event before.
func (r *readModel) time(t int64) int64 {
	if t <= r.last {
		t = r.last + 1
	}
	r.last = t
	return t + r.wall
}

// add adds an event that happened in a context.
func (r *readModel) add(kind event.Kind, time int64, ctx *modelContext, g uint64) *event.Event {
	tid, p := readThread(ctx.m), readProc(ctx.p)
	part := r.part
	n := len(part.events)
	part.events = part.events[:n+1]
	e := &part.events[n]
	*e = event.Event{}
	e.Time, e.Kind, e.TID, e.P, e.G = time, kind, tid, p, g
	return e
}

// readThread returns the ID of a thread; 0 for none.
func readThread(m uint64) int32 {
	if m > math.MaxInt32 {
		return 0
	}
	return int32(m)
}

// readProc returns the P with an ID of the trace.
func readProc(p uint64) event.Proc {
	if p >= math.MaxInt32 {
		return 0
	}
	return event.ProcOf(int32(p))
}

// readGo returns the ID of a goroutine or task; 0 for none.
func readGo(g uint64) uint64 {
	if g == modelNone {
		return 0
	}
	return g
}

// event makes events of one of the model.
func (r *readModel) event(c *modelCursor) {
	ctx := &r.md.ctx
	t := r.time(c.time)
	switch c.kind {
	case raw.EvGoStart:
		r.add(event.GoStart, t, ctx, c.args[0])
	case raw.EvGoBlock:
		e := r.add(event.GoBlock, t, ctx, ctx.g)
		e.Stack = r.stack(c.args[1])
		r.blockReason(e, c.args[0], c.args[1])
	case raw.EvGoUnblock:
		e := r.add(event.GoUnblock, t, ctx, c.args[0])
		e.By, e.Stack = readGo(ctx.g), r.stack(c.args[2])
	case raw.EvGoStop:
		e := r.add(event.GoStop, t, ctx, ctx.g)
		e.Reason, e.Stack = r.name(c.args[0]), r.stack(c.args[1])
	case raw.EvGoSyscallBegin:
		r.add(event.GoSyscallBegin, t, ctx, ctx.g).Stack = r.stack(c.args[1])
		c.thread.g.since = t
	case raw.EvGoSyscallEnd:
		r.add(event.GoSyscallEnd, t, ctx, ctx.g).Value = r.syscallTime(c, t)
	case raw.EvHeapAlloc:
		r.add(event.HeapAlloc, t, ctx, 0).Value = readInt(c.args[0])
	case raw.EvGoCreate, raw.EvGoCreateBlocked:
		e := r.add(event.GoCreate, t, ctx, c.args[0])
		e.Parent, e.Stack, e.Origin = readGo(ctx.g), r.stack(c.args[2]), r.origin(c.args[2], c.args[1])
		if c.kind == raw.EvGoCreateBlocked {
			e.State = event.StateWaiting
		}
	case raw.EvGoDestroy:
		r.add(event.GoDestroy, t, ctx, ctx.g)
	default:
		r.rareEvent(c, t)
	}
}

// rareEvent is event for the types of which there are few.
func (r *readModel) rareEvent(c *modelCursor, t int64) {
	ctx := &r.md.ctx
	switch c.kind {
	case raw.EvGoSwitch, raw.EvGoSwitchDestroy:
		r.goSwitch(c, t)
	case raw.EvGoSyscallEndBlocked:
		e := r.add(event.GoSyscallEnd, t, ctx, ctx.g)
		e.Value, e.State = r.syscallTime(c, t), event.StateRunnable
	case raw.EvGoStatus, raw.EvGoStatusStack:
		r.goStatus(c, t)
	case raw.EvGoCreateSyscall:
		r.add(event.GoCreate, t, ctx, c.args[0]).Parent = readGo(ctx.g)
		r.add(event.GoStart, t, ctx, c.args[0])
		r.add(event.GoSyscallBegin, t, ctx, c.args[0])
		c.thread.g.since = t
	case raw.EvGoDestroySyscall:
		if r.md.stolen { // readers have an event of their own for that
			r.part.stats.Procs++
			t = r.time(c.time)
		}
		r.add(event.GoSyscallEnd, t, ctx, ctx.g)
		r.add(event.GoDestroy, t, ctx, ctx.g)
	case raw.EvSTWBegin:
		e := r.add(event.STWBegin, t, ctx, ctx.g)
		e.Reason, e.Stack = r.name(c.args[0]), r.stack(c.args[1])
	case raw.EvSTWEnd:
		r.add(event.STWEnd, t, ctx, 0)
	case raw.EvGCBegin:
		r.add(event.GCBegin, t, ctx, readGo(ctx.g)).Stack = r.stack(c.args[1])
	case raw.EvGCEnd:
		r.add(event.GCEnd, t, ctx, 0)
	default:
		if !r.userEvent(c, t) {
			r.count(c.kind)
		}
	}
}

// count counts an event that has no counterpart.
func (r *readModel) count(kind raw.Type) {
	s := &r.part.stats
	switch kind {
	case raw.EvProcStart, raw.EvProcStop, raw.EvProcSteal, raw.EvProcStatus:
		s.Procs++
	case raw.EvProcsChange:
		s.MaxProcs++
	case raw.EvGCActive:
		s.GCActive++
	case raw.EvGCSweepActive, raw.EvGCSweepBegin, raw.EvGCSweepEnd:
		s.Sweeps++
	case raw.EvGCMarkAssistActive, raw.EvGCMarkAssistBegin, raw.EvGCMarkAssistEnd:
		s.MarkAssists++
	case raw.EvHeapGoal:
		s.HeapGoals++
	case raw.EvGoLabel:
		s.Labels++
	default:
		s.Experiments++
	}
}

// goSwitch makes the events of a coroutine that hands over to another one.
func (r *readModel) goSwitch(c *modelCursor, t int64) {
	ctx := &r.md.ctx
	r.add(event.GoUnblock, t, ctx, c.args[0]).By = ctx.g
	if c.kind == raw.EvGoSwitch {
		r.add(event.GoBlock, r.time(c.time), ctx, ctx.g).Reason = readCoroutine
	} else {
		r.add(event.GoDestroy, r.time(c.time), ctx, ctx.g)
	}
	r.add(event.GoStart, r.time(c.time), ctx, c.args[0])
}

// goStatus makes the event of a goroutine's first status.
func (r *readModel) goStatus(c *modelCursor, t int64) {
	if !r.md.first {
		r.part.stats.Statuses++
		return
	}
	e := r.add(event.GoStatus, t, &r.md.ctx, c.args[0])
	e.State = readState(modelStatus(c.args[2]))
	stack := uint64(0)
	if c.kind == raw.EvGoStatusStack {
		stack = c.args[3]
		e.Stack = r.stack(stack)
	}
	e.Origin = r.rootOrigin(e.G, stack)
}

func readState(s modelStatus) event.State {
	switch s {
	case modelGoRunnable:
		return event.StateRunnable
	case modelGoRunning:
		return event.StateRunning
	case modelGoSyscall:
		return event.StateSyscall
	case modelGoWaiting:
		return event.StateWaiting
	}
	return ""
}

// syscallTime returns how long the system call has taken that a thread's goroutine comes back from; 0 if its begin is not
// in the trace.
func (r *readModel) syscallTime(c *modelCursor, now int64) int64 {
	g := c.thread.g
	if g.id != r.md.ctx.g || g.since == 0 {
		return 0
	}
	d := now - g.since
	g.since = 0
	return d
}

// readInt returns a number of the trace as one of an event.
func readInt(x uint64) int64 { return int64(min(x, math.MaxInt64)) }

// userEvent makes the events that tell what the program has said. It returns false for other ones.
func (r *readModel) userEvent(c *modelCursor, t int64) bool {
	ctx := &r.md.ctx
	switch c.kind {
	case raw.EvUserTaskBegin:
		e := r.add(event.UserTaskBegin, t, ctx, ctx.g)
		e.Value, e.Object, e.Text, e.Stack = int64(c.args[0]), readGo(c.args[1]), r.text(c.args[2]), r.stack(c.args[3])
	case raw.EvUserTaskEnd:
		e := r.add(event.UserTaskEnd, t, ctx, ctx.g)
		e.Value, e.Stack = int64(c.args[0]), r.stack(c.args[1])
	case raw.EvUserRegionBegin, raw.EvUserRegionEnd:
		kind := event.UserRegionBegin
		if c.kind == raw.EvUserRegionEnd {
			kind = event.UserRegionEnd
		}
		e := r.add(kind, t, ctx, ctx.g)
		e.Value, e.Text, e.Stack = int64(c.args[0]), r.text(c.args[1]), r.stack(c.args[2])
	case raw.EvUserLog:
		category, message := r.name(c.args[1]), r.text(c.args[2])
		if n, ok := readLost(category, message); ok {
			r.add(event.Lost, t, &modelContext{modelNone, modelNone, modelNone}, 0).Value = n
			break
		}
		e := r.add(event.UserLog, t, ctx, ctx.g)
		e.Value, e.Reason, e.Text, e.Stack = int64(c.args[0]), category, message, r.stack(c.args[3])
	default:
		return false
	}
	return true
}

// readLost returns how many events were lost, if that is what a message says.
func readLost(category, message string) (int64, bool) {
	if category != readLogCategory {
		return 0, false
	}
	number, ok := strings.CutSuffix(message, " events lost")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil && n >= 0
}

// readLogCategory is the category of the messages of a Writer.
const readLogCategory = "loupe"

// sample makes the event of a sample of the CPU profiler.
func (r *readModel) sample(s *modelSample) {
	e := r.add(event.CPUSample, r.time(s.time), &modelContext{m: s.m, p: s.p}, s.g)
	e.Stack = r.stack(s.stack)
}

// fits reports whether the generation and what is alive fit into memory.
func (r *readModel) fits() bool {
	r.loader.state = r.md.memory()
	return r.loader.fits()
}
