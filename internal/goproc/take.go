package goproc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// SnapshotOptions configures Process.Snapshot. The zero value reads all goroutines while the process continues to run.
type SnapshotOptions struct {
	// Pause stops all threads with ptrace during the snapshot, so that all goroutines are read at the same moment and the
	// stacks of running goroutines are exact. It requires permission to trace the process.
	Pause bool

	// Running reports a goroutine that is running when it is read for the first time as running, with a best-effort stack.
	// Otherwise it is read again until it has stopped, so that its stack is exact, and states that last for a short time are
	// seen less often than they occur. Pause does not require it.
	Running bool

	// Each, if not nil, is called with each goroutine, in no particular order, and the snapshot's Goroutines is nil. The
	// goroutine is reused for the next call; what it points to may be kept. Each cannot be combined with Pause, because a
	// paused process may have to be read again.
	Each func(*event.Goroutine)
}

// settleRounds is how often reading a goroutine that ran during the read is retried.
const settleRounds = 24

// A process is paused again if the registers of a goroutine were not available: while it switches or
// moves its stack, or in a signal handler. That takes some microseconds, but a busy machine can preempt its thread for
// many milliseconds meanwhile, so the next attempt waits until the threads have run.
const (
	pauseAttempts = 20
	pauseRun      = 100 * time.Microsecond
	pausePatience = 500 * time.Millisecond
)

// errCaught says that a goroutine of a paused process was stopped where it cannot be read exactly.
var errCaught = errors.New("a goroutine is changing its stack")

// Snapshot reads all goroutines of the process. Without Pause, the state and the stack of a goroutine are from the same
// moment, but the moments of two goroutines may be some milliseconds apart.
func (p *Process) Snapshot(ctx context.Context, opt SnapshotOptions) (*event.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if opt.Pause && opt.Each != nil {
		return nil, errors.New("a snapshot of a paused process cannot be streamed")
	}
	for attempt := 1; ; attempt++ {
		t := &taker{
			p: p, ctx: ctx, snap: &event.Snapshot{Time: time.Now(), PID: p.pid, GoVersion: p.main.bin.GoVersion(), Paused: opt.Pause},
			labels: newLabelReader(p.mem, p.main.bin.Version().Minor), starts: map[startKey]event.Frame{},
			last: !opt.Pause || attempt == pauseAttempts, each: opt.Each, asSeen: opt.Running && !opt.Pause,
		}
		t.snap.Warnings = append(t.snap.Warnings, p.warnings...)
		err := t.snapshot()
		switch {
		case err == nil:
			return t.snap, nil
		case !errors.Is(err, errCaught):
			return nil, err
		}
		t.caught.Await(ctx, pauseRun, pausePatience)
	}
}

// snapshot takes the snapshot. After errCaught the process is running again, and caught is set.
func (t *taker) snapshot() error {
	p := t.p
	if t.snap.Paused {
		stopped, err := ptrace.Stop(t.ctx, p.pid, ptrace.Options{Together: true})
		if err != nil {
			return err
		}
		defer stopped.Release()
		t.snap.Time = time.Now()
		t.regs = pausedAt(stopped)
	}
	err := t.take()
	if errors.Is(err, errCaught) {
		if t.caught, err = p.Progress(); err == nil {
			return errCaught
		}
	}
	if err != nil {
		return t.explain(err)
	}
	// The process may have exited, or executed another program, during the read.
	if err := p.alive(t.ctx); err != nil {
		return err
	}
	if t.each == nil {
		t.sort()
	}
	t.snap.Elapsed = time.Since(t.snap.Time)
	return nil
}

// taker takes one snapshot.
type taker struct {
	p       *Process
	ctx     context.Context
	snap    *event.Snapshot
	each    func(*event.Goroutine)
	passed  event.Goroutine // the goroutine that Each is called with
	asSeen  bool            // SnapshotOptions.Running
	seen    []*observation  // goroutines that were running when they were read, if asSeen
	last    bool            // the last attempt: goroutines that cannot be read exactly are marked as best effort
	caught  *Progress       // of the threads, if the next attempt must wait for them
	labels  *labelReader
	regs    map[int]registers // of stopped threads, when paused
	ms      map[uint64]rawM
	tids    map[int]int   // kernel threads by the IDs that the runtime uses
	now     int64         // the process's monotonic clock
	waitMax time.Duration // longest possible wait of a goroutine that no garbage collection has found waiting

	buf       []byte     // of the current batch
	walk      []physical // of the current stack
	starts    map[startKey]event.Frame
	labelErrs int
}

// sort sorts the goroutines by ID. They are large, so it sorts an index and then moves each once.
func (t *taker) sort() {
	gs := t.snap.Goroutines
	order := make([]int, len(gs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(gs[a].ID, gs[b].ID) })
	sorted := make([]event.Goroutine, len(gs))
	for i, j := range order {
		sorted[i] = gs[j]
	}
	t.snap.Goroutines = sorted
}

// explain replaces an error if the process has exited or executed another program.
func (t *taker) explain(err error) error {
	if aliveErr := t.p.alive(t.ctx); aliveErr != nil {
		return aliveErr
	}
	return err
}

func (t *taker) take() error {
	addrs, err := t.p.readAllgs()
	if err != nil {
		return err
	}
	if t.ms, err = t.p.readMs(); err != nil {
		return err
	}
	if t.tids, err = t.p.dir.threads(); err != nil {
		return err
	}
	if err := t.readClock(); err != nil {
		return err
	}
	if err := t.checkThreads(); err != nil { // before the goroutines that can be read in any case
		return err
	}
	if t.each == nil {
		t.snap.Goroutines = make([]event.Goroutine, 0, len(addrs))
	}
	var unsettled []uint64
	for round := 0; len(addrs) > 0 && (round == 0 || !t.snap.Paused && round < settleRounds); round++ {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		if unsettled, err = t.round(addrs); err != nil {
			return err
		}
		addrs = unsettled
	}
	if len(addrs) > 0 && !t.last {
		return errCaught
	}
	if err := t.restless(addrs); err != nil {
		return err
	}
	if t.labelErrs > 0 {
		t.snap.Warnings = append(t.snap.Warnings, event.Warnf(event.WarnNames, "the labels of %s could not be read", english.Count(t.labelErrs, "goroutine")))
	}
	return nil
}

// checkThreads returns errCaught if a thread was stopped where its goroutine cannot be read exactly.
func (t *taker) checkThreads() error {
	if t.last {
		return nil
	}
	var running []uint64
	for _, m := range t.ms {
		if m.curg != 0 {
			running = append(running, m.curg)
		}
	}
	gs, err := t.p.readGs(running)
	if err != nil {
		return err
	}
	for _, g := range gs {
		if _, ok := t.stopped(g); !ok && !t.p.rt.gone(g) {
			return errCaught
		}
	}
	return nil
}

// readClock reads the time from which the duration of waits is computed.
func (t *taker) readClock() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return err
	}
	t.now = ts.Nano() + int64(t.p.dir.monotonicOffset())
	st, err := t.p.dir.stat()
	if err != nil {
		return err
	}
	t.waitMax = st.age()
	if t.p.rt.work == 0 {
		return nil
	}
	if start, err := t.p.mem.u64(t.p.rt.work); err == nil && int64(start) > 0 && int64(start) <= t.now {
		t.waitMax = min(t.waitMax, time.Duration(t.now-int64(start)))
	}
	return nil
}

// roundBatch is the number of goroutines that are read together, with all their stacks in memory.
const roundBatch = 2048

// round reads the goroutines at the given addresses and returns those that ran meanwhile.
func (t *taker) round(addrs []uint64) (unsettled []uint64, err error) {
	for batch := range slices.Chunk(addrs, roundBatch) {
		gs, err := t.p.readGs(batch)
		if err != nil {
			return nil, err
		}
		moved, err := t.readStacks(gs)
		if err != nil {
			return nil, err
		}
		unsettled = append(unsettled, moved...)
	}
	return unsettled, nil
}

// bracket is the stack of one goroutine, read between two reads of its g. The stack is read twice: if both reads of
// both agree, the goroutine did not run.
type bracket struct {
	g             rawG
	regs          registers
	inUse         int    // bytes of the stack to read
	before, after []byte // the g
	first, second []byte // the stack in use
}

// Bounds on the memory that stacks are copied to.
const (
	maxStackCopy  = 64 << 20 // of one goroutine, from its innermost frame; a longer stack is marked as truncated
	maxBatchCopy  = 64 << 20 // of the goroutines that are read together, unless it is a single one
	spansPerStack = 4
)

// readStacks reads the stacks of goroutines that are not running, adds those that did not run meanwhile to the snapshot,
// and returns the addresses of the others.
func (t *taker) readStacks(gs []rawG) (moved []uint64, err error) {
	var batch []bracket
	size := 0
	for _, g := range gs {
		if t.p.rt.gone(g) {
			continue
		}
		regs, ok := t.stopped(g)
		if t.asSeen && g.status == t.p.rt.status.running && len(t.seen) < maxSeen {
			t.seen = append(t.seen, t.observe(g))
			continue
		}
		if !ok || regs.sp < g.stackLo || regs.sp > g.stackHi {
			moved = append(moved, g.addr)
			continue
		}
		b := bracket{g: g, regs: regs, inUse: int(min(g.stackHi-regs.sp, maxStackCopy))}
		if size += b.inUse; size > maxBatchCopy && len(batch) > 0 {
			if moved, err = t.readBatch(batch, moved); err != nil {
				return nil, err
			}
			batch, size = batch[:0], b.inUse
		}
		batch = append(batch, b)
	}
	return t.readBatch(batch, moved)
}

// place assigns memory from the front of buf to a bracket and returns the rest.
func (b *bracket) place(buf []byte, gsize int) (rest []byte) {
	take := func(n int) (piece []byte) {
		piece, buf = buf[:n:n], buf[n:]
		return piece
	}
	b.before, b.first, b.second, b.after = take(gsize), take(b.inUse), take(b.inUse), take(gsize)
	return buf
}

// readBatch reads the stacks of the brackets and appends the addresses of goroutines that ran meanwhile to moved.
func (t *taker) readBatch(batch []bracket, moved []uint64) ([]uint64, error) {
	gsize, total := t.p.rt.g.size, 0
	for _, b := range batch {
		total += 2 * (gsize + b.inUse)
	}
	if cap(t.buf) < total {
		t.buf = make([]byte, total)
	}
	buf := t.buf[:total]
	spans := make([]span, 0, spansPerStack*len(batch))
	for i := range batch {
		b := &batch[i]
		buf = b.place(buf, gsize)
		spans = append(spans, span{addr: b.g.addr, buf: b.before}, span{addr: b.regs.sp, buf: b.first},
			span{addr: b.regs.sp, buf: b.second}, span{addr: b.g.addr, buf: b.after})
	}
	if err := t.p.mem.readSpans(spans); err != nil {
		return nil, err
	}
	for i := range batch {
		b := &batch[i]
		read := true
		for _, s := range spans[spansPerStack*i:][:spansPerStack] {
			read = read && (s.ok || len(s.buf) == 0)
		}
		if !read || !t.settled(b) {
			moved = append(moved, b.g.addr)
			continue
		}
		t.add(b)
	}
	return moved, nil
}

// settled reports whether a goroutine did not run while its stack was read.
func (t *taker) settled(b *bracket) bool {
	before, after := t.p.rt.decodeG(b.g.addr, b.before), t.p.rt.decodeG(b.g.addr, b.after)
	return before.same(after) && before.same(b.g) && bytes.Equal(b.first, b.second)
}

// stopped returns the registers at which a goroutine stopped. ok is false for a running goroutine, unless its thread's
// registers are known.
func (t *taker) stopped(g rawG) (registers, bool) {
	s := &t.p.rt.status
	switch g.status {
	case s.running:
		return t.threadRegisters(g)
	case s.syscall:
		if g.syscallSP != 0 {
			return registers{pc: g.syscallPC, sp: g.syscallSP}, true
		}
		return registers{}, false
	case s.copystack:
		return registers{}, false
	}
	return registers{pc: g.pc, sp: g.sp, lr: g.lr}, true
}

// threadRegisters returns the registers of a running goroutine whose thread is stopped. While the thread executes on the
// stack of its system goroutine, or in the vDSO, they are those that the goroutine saved. ok is false
// if they are not available: in the few instructions that switch stacks, and in a signal handler.
func (t *taker) threadRegisters(g rawG) (r registers, ok bool) {
	m := t.ms[g.m]
	r, ok = t.regs[t.tids[m.tid]]
	if !ok {
		return registers{}, false
	}
	if r.sp >= g.stackLo && r.sp <= g.stackHi {
		info := t.p.symbols.lookup(r.pc)
		return r, info.known && info.role != roleSwitch
	}
	if m.vdso.sp >= g.stackLo && m.vdso.sp <= g.stackHi {
		return m.vdso, true
	}
	g0, err := t.p.readGs([]uint64{m.g0})
	onSystemStack := err == nil && r.sp >= g0[0].stackLo && r.sp <= g0[0].stackHi
	return registers{pc: g.pc, sp: g.sp, lr: g.lr}, onSystemStack && g.sp >= g.stackLo && g.sp <= g.stackHi
}

var stackSeed = maphash.MakeSeed()

// add adds a goroutine whose stack was read.
func (t *taker) add(b *bracket) {
	u := t.p.symbols.unwind(b.regs, stackImage{base: b.regs.sp, data: b.first}, t.walk)
	t.walk = u.frames
	g := t.goroutine(b.g, t.p.symbols.frames(u.frames))
	if !u.complete {
		t.snap.Incomplete++
		g.Truncated = true
	}
	g.StackEnd, g.StackHash = b.g.stackHi, maphash.Bytes(stackSeed, b.first)
	t.keep(g)
}

// keep adds a goroutine to the snapshot, or passes it on.
func (t *taker) keep(g event.Goroutine) {
	if t.each == nil {
		t.snap.Goroutines = append(t.snap.Goroutines, g)
		return
	}
	t.passed = g
	t.each(&t.passed)
}

// goroutine returns the public form of a goroutine.
func (t *taker) goroutine(g rawG, stack []event.StackFrame) event.Goroutine {
	s := &t.p.rt.status
	out := event.Goroutine{
		ID: g.goid, Parent: g.parent, State: t.p.stateOf(g.status), Stack: stack,
		Locked: g.locked, Start: t.startFrame(g, stack), Stops: g.trackingSeq,
	}
	if g.status == s.waiting || g.status == s.leaked {
		out.Reason = t.p.waitReason(g.waitReason)
		out.SystemStack = g.m != 0 // a goroutine that is waiting has released its thread
	}
	if g.goid != 1 && g.gopc != 0 {
		out.CreatedBy = t.p.symbols.location(g.gopc)
	}
	out.System = isSystem(t.p.symbols.lookup(g.startPC).fn.Name, stack)
	if m, ok := t.ms[g.m]; ok && (g.status == s.running || g.status == s.syscall) {
		out.TID = int32(t.tids[m.tid])
	}
	t.setWait(&out, g)
	labels, err := t.labels.read(g.labels)
	if err != nil {
		t.labelErrs++
		t.p.log.Debug("labels not read", "goroutine", g.goid, "err", err)
	}
	out.Labels = labels
	return out
}

// startFrame returns the function that a goroutine was started with. A go statement with arguments starts a wrapper that
// the compiler generates. The function of the statement is its callee.
func (t *taker) startFrame(g rawG, stack []event.StackFrame) event.Frame {
	key := startKey{pc: g.startPC}
	if len(stack) > 0 {
		key.stack = &stack[0]
	}
	start, ok := t.starts[key]
	if !ok {
		start = t.findStart(g, stack)
		t.starts[key] = start
	}
	return start
}

// startKey is the cache key of a goroutine's start frame. Equal stacks share their frames.
type startKey struct {
	pc    uint64
	stack *event.StackFrame
}

func (t *taker) findStart(g rawG, stack []event.StackFrame) event.Frame {
	info := t.p.symbols.lookup(g.startPC)
	if !info.known {
		return event.Frame{}
	}
	calls := t.p.symbols.calls(g.startPC, info, true)
	outer := calls[len(calls)-1]
	start := event.Frame{Func: outer.Func, File: outer.File, Line: outer.StartLine}
	if !outer.Wrapper {
		return start
	}
	for _, f := range slices.Backward(stack) {
		if f.Func != outer.Func && f.Func != "runtime.goexit" && f.Func != "" {
			start = f.Frame
			if f.StartLine != 0 {
				start.Line = f.StartLine
			}
			break
		}
	}
	return start
}

// setWait sets how long a goroutine has been blocked.
func (t *taker) setWait(out *event.Goroutine, g rawG) {
	s := &t.p.rt.status
	if g.status != s.waiting && g.status != s.syscall && g.status != s.leaked {
		return
	}
	if g.waitSince > 0 && g.waitSince <= t.now {
		out.Wait, out.WaitKnown = time.Duration(t.now-g.waitSince), true
		return
	}
	out.WaitMax = t.waitMax
}

// stateOf returns the name of a goroutine status, or "" if the status is unknown.
func (p *Process) stateOf(status uint32) event.State {
	s := &p.rt.status
	switch status {
	case s.idle, s.dead, s.deadExtra:
		return "dead"
	case s.runnable:
		return event.StateRunnable
	case s.running:
		return event.StateRunning
	case s.syscall:
		return event.StateSyscall
	case s.waiting:
		return event.StateWaiting
	case s.copystack:
		return event.StateCopystack
	case s.preempted:
		return event.StatePreempted
	case s.leaked:
		return event.StateLeaked
	}
	return ""
}

func (p *Process) waitReason(n uint8) string {
	if int(n) < len(p.rt.waitReasons) {
		return p.rt.waitReasons[n]
	}
	return fmt.Sprintf("unknown wait reason %d", n)
}
