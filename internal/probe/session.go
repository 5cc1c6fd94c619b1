package probe

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// A Session observes one process with one engine.
type Session struct {
	proc     *goproc.Process
	engine   Engine
	plan     *Plan
	decoder  *decoder
	warnings []event.Warning

	first    *initialList // the goroutines that were alive at the start
	buffered *backlog     // records received during the snapshot

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards what follows
	received [event.KindLimit]uint64
	garbled  uint64
	noted    []SetCounts            // by set
	tables   map[tableID]finalTable // set when everything is released
	yielded  uint64

	unlisted, contextsFull uint64 // as last read from the engine

	doubt    event.TimeError
	err      error
	closeErr error
	counts   [event.KindLimit]event.Counts // as last read from the engine
	totals   csrc.Totals                   // the same
	peak     float64                       // of Engine.Used, since the last call of BufferPeak
	delays   event.Delays
	sample   sample
	late     []event.Warning // of the first rise of the ratio that had one
	countErr error           // the reason why they could not be read since then

	started, running           bool // Events was called, and is yielding
	detached, closed, released bool
}

// Open begins to observe a process. The session takes ownership of the process and the engine, even if Open fails.
func Open(ctx context.Context, p *goproc.Process, engine Engine, want Want) (*Session, error) {
	s := &Session{proc: p, engine: engine}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := p.UnlessReplaced(s.open(want)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) open(want Want) error {
	plan, warnings, err := NewPlan(s.proc, want)
	if err != nil {
		return err
	}
	s.plan, s.warnings = plan, warnings
	s.sample = sample{want: plan.Rule, probes: plan.Rule, fewest: plan.Rule}
	s.decoder = newDecoder(s.proc, s.engine, plan, clockOffset())
	if warnings, err = s.attach(plan); err != nil {
		return err
	}
	s.warnings = append(s.warnings, warnings...)
	if n := s.proc.Plugins(); n > 0 {
		s.Warn(event.Warnf(event.WarnMissing, "plugins are loaded (%d), each with its own copy of runtime functions: events in these copies are not reported", n))
	}
	s.engine.Enable()
	return nil
}

func (s *Session) attach(plan *Plan) ([]event.Warning, error) {
	unlock, err := s.proc.Lock(s.ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.engine.Attach(plan)
}

// OpenRunning is like Open, for a running process. It takes the snapshot with which the events begin.
func OpenRunning(ctx context.Context, p *goproc.Process, engine Engine, want Want) (*Session, error) {
	s, err := Open(ctx, p, engine, want)
	if err != nil {
		return nil, err
	}
	if err := p.UnlessReplaced(s.begin()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// clockOffset returns the offset of Unix time from the monotonic clock. It uses the best of at most 1000 readings: on a busy
// machine any reading may be interrupted.
func clockOffset() int64 {
	const near = int64(time.Microsecond)
	best, offset := int64(1<<62), int64(0)
	for i := 0; i < 1000 && best > near; i++ {
		before := monotonic()
		wall := time.Now().UnixNano()
		after := monotonic()
		if after-before < best {
			best, offset = after-before, wall-(before+after)/2
		}
	}
	return offset
}

func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail with this clock
	return ts.Nano()
}

// Observed returns the IDs of the live goroutines that match the filters and are sampled.
func (s *Session) Observed() ([]uint64, error) {
	var ids []uint64
	s.mu.Lock()
	rule := s.sample.want
	s.mu.Unlock()
	err := s.proc.EachAlive(func(id uint64, system bool) {
		if rule.Selects(id) && s.selects(&event.Goroutine{ID: id, System: system}) {
			ids = append(ids, id)
		}
	})
	return ids, err
}

// Unlist makes the probes ignore a goroutine that serves no request any more, with Want.Requests. It is called by Set.Decode or by the
// goroutine that iterates over Events.
func (s *Session) Unlist(goroutine uint64) {
	if err := s.engine.Unlist(goroutine); err != nil {
		s.fail(err)
	}
}

// Disown makes the requests that a goroutine sends no part of the request in which it was created, with Want.Propagate. It is called as
// Unlist is.
func (s *Session) Disown(goroutine uint64) { s.engine.Disown(goroutine) }

// InGap reports whether records that precede the current one may be lost although no Lost event separates them from it. It is
// called by Set.Decode or by the goroutine that iterates over Events.
func (s *Session) InGap() bool { return s.engine.InGap() }

// Unlisted returns the number of goroutines of requests whose events are missing because there were too many at once.
func (s *Session) Unlisted() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.released {
		s.unlisted = s.engine.Unlisted()
	}
	return s.unlisted
}

// ContextsFull returns the number of contexts of spans that were not stored because there were too many at once.
func (s *Session) ContextsFull() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.released {
		s.readContexts()
	}
	return s.contextsFull
}

// readContexts reads contextsFull, if the engine stores contexts. The caller holds the lock.
func (s *Session) readContexts() {
	if e, ok := s.engine.(interface{ ContextsFull() uint64 }); ok {
		s.contextsFull = e.ContextsFull()
	}
}

// Engine returns the engine of the session.
func (s *Session) Engine() Engine { return s.engine }

// Warnings returns the warnings for the user.
func (s *Session) Warnings() []event.Warning {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.proc.Warnings(), s.warnings, s.late, s.engine.Warnings())
}

// Warn adds a warning. It must be called before other goroutines use the session.
func (s *Session) Warn(w event.Warning) { s.warnings = append(s.warnings, w) }

// Attached reports whether a probe of a set in Want.Sets is attached.
func (s *Session) Attached(set *Set, program string) bool {
	i := slices.Index(s.plan.Want.Sets, set) + 1
	return i > 0 && slices.ContainsFunc(s.plan.Probes, func(p Probe) bool { return p.Set == i && p.Program == program })
}

// Functions returns the functions that have probes of a set in Want.Sets. They may be repeated.
func (s *Session) Functions(set *Set) []string {
	var names []string
	i := slices.Index(s.plan.Want.Sets, set) + 1
	for _, p := range s.plan.Probes {
		if i == 0 || p.Set != i {
			continue
		}
		for _, site := range p.Sites {
			names = append(names, site.Func)
		}
	}
	return names
}

// PID returns the ID of the observed process.
func (s *Session) PID() int { return s.proc.PID() }

// Process returns the observed process.
func (s *Session) Process() *goproc.Process { return s.proc }

// Events yields the events until the target ends, the context is done, or the session is detached or closed. It may be
// called only once.
func (s *Session) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		if !s.start() {
			return
		}
		defer s.stop()
		n := uint64(0)
		goOn := s.run(func(ev *event.Event) bool {
			if ev.Kind != event.Lost && ev.Kind != event.Resample { // marks, not events
				n++
			}
			if n%delayEvery == 0 {
				s.delay(ev)
			}
			if n&(1<<10-1) == 0 {
				s.account(n)
			}
			return yield(ev)
		})
		s.account(n)
		if goOn {
			s.finish(yield, n)
		}
	}
}

// run yields events until the stream ends. It returns false if yield did.
func (s *Session) run(yield func(*event.Event) bool) bool {
	if !s.first.yield(yield) {
		return false
	}
	s.first = nil
	goOn, ended := true, false
	record := func(raw []byte) bool {
		goOn = s.decoder.decode(raw, func(ev *event.Event) bool {
			ended = ended || ev.Kind == event.Exec
			return yield(ev)
		})
		return goOn && !ended
	}
	s.buffered.drain(record)
	s.buffered = nil
	s.accountNotes()
	for goOn && !ended {
		now, lost := monotonic(), s.engine.Lost()
		s.notePeak()
		all := s.engine.Drain(record)
		s.accountNotes()
		if !goOn || ended {
			break
		}
		if all { // lost before the end of what was read
			goOn = s.decoder.addLost(now, lost, yield)
		}
		if goOn {
			s.resample(record, func(ev *event.Event) bool {
				goOn = yield(ev)
				return goOn
			})
		}
		if moreLost := all && s.engine.Lost() != lost; goOn && !ended && !moreLost && !s.engine.Wait(s.ctx) {
			break
		}
	}
	if goOn && !ended {
		s.engine.Close() // no records are added after this
		s.engine.Drain(record)
		s.accountNotes()
	}
	if ended {
		s.fail(fmt.Errorf("process %d: %w", s.PID(), goproc.ErrReplaced))
	}
	return goOn
}

// finish reports losses that no record has reported.
func (s *Session) finish(yield func(*event.Event) bool, n uint64) {
	s.decoder.addLost(monotonic(), s.engine.Lost(), yield)
	s.account(n)
}

// account publishes the counts.
func (s *Session) account(yielded uint64) {
	doubt := s.engine.TimeError()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received, s.garbled, s.yielded, s.doubt = s.decoder.received, s.decoder.garbled, yielded, doubt
}

// accountNotes publishes the counts of notes. A session that only has other sets than the runtime's yields no events.
func (s *Session) accountNotes() {
	if len(s.decoder.sets) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = s.decoder.received
	s.noted = append(s.noted[:0], s.decoder.noted...)
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Err returns the error that ended the events. It is nil if the target ended, the context was done or the session was
// closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// End ends the session with the given error.
func (s *Session) End(err error) {
	s.fail(err)
	s.engine.Stop()
}

// Stats returns the event counts so far. If the engine's counts cannot be read, it returns those that were read last, and
// the error.
func (s *Session) Stats() event.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := event.Stats{Events: s.yielded, Kinds: map[event.Kind]event.Counts{}, TimeError: s.doubt, Delays: s.delays}
	if s.garbled > 0 {
		stats.Err = fmt.Errorf("%s could not be decoded", english.Count(s.garbled, "record"))
	}
	if !s.released {
		s.readCounts()
		stats.BufferUsed = s.engine.Used()
	}
	stats.Created, stats.Ended, stats.Hits = s.totals.Created, s.totals.Ended, s.totals.Hits
	if s.countErr != nil {
		stats.Err = s.countErr // more is unknown than the contents of the invalid records
	}
	for k, c := range s.counts {
		c.Received = s.received[k]
		if c == (event.Counts{}) || isNote(uint8(k), len(s.noted)) {
			continue
		}
		kind := event.Kind(k)
		if uint8(k) == csrc.KindSwitch {
			kind = event.GoSwitch
		}
		stats.Kinds[kind] = c
		stats.Lost += c.Lost
		stats.Unreadable += c.Unreadable
	}
	return stats
}

// SetNumbers returns the counts of the notes of sets in Want.Sets, as Stats does for events.
func (s *Session) SetNumbers(sets ...*Set) (sum SetCounts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.released {
		s.readCounts()
	}
	for _, set := range sets {
		i := slices.Index(s.plan.Want.Sets, set)
		if i < 0 {
			return sum, fmt.Errorf("process %d: the session has no set %s", s.PID(), set.Name)
		}
		kind := int(csrc.KindSet) + i
		var c SetCounts
		if i < len(s.noted) {
			c = s.noted[i]
		}
		c.Counts = s.counts[kind]
		c.Received = s.received[kind]
		sum.Add(c)
	}
	return sum, s.countErr
}

// readCounts reads the counts of the engine. If that fails, it keeps the previous ones. The caller holds the lock.
func (s *Session) readCounts() {
	raw, err := s.engine.Counts()
	totals, totalsErr := s.engine.Totals()
	if s.countErr = cmp.Or(err, totalsErr); s.countErr != nil {
		return
	}
	s.totals = totals
	for k, c := range raw {
		s.counts[k] = event.Counts{Produced: c.Produced, Lost: c.NoRoom + c.Unreadable, Unreadable: c.Unreadable}
	}
}

// start records that events are being yielded, so that their memory is kept until stop. It returns false if this is
// already the case, or if the session is closed.
func (s *Session) start() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.closed {
		return false
	}
	s.started, s.running = true, true
	return true
}

func (s *Session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.closed = false, true
	s.detach()
	s.release()
}

// Detach removes the probes, even while the consumer of Events is blocked. Events still yields what is in the buffer.
// Detach may be called more than once.
func (s *Session) Detach() error {
	s.engine.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach()
	return s.closeErr
}

// Close ends the observation and restores the target to its original state. It may be called more than once, and while
// Events is yielding; Events then ends after the existing records. If another tracer of the process or a frozen cgroup
// prevents this, Close fails after some seconds and can be called again.
func (s *Session) Close() error {
	s.engine.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.detach()
	if !s.running {
		s.release()
	}
	return s.closeErr
}

// detach removes the probes. If this fails for a reason that may end, the next call tries again. The caller holds the
// lock.
func (s *Session) detach() {
	if !s.detached {
		s.cancel()
		s.closeErr = join(s.engine.Close())
		s.detached = !MayCloseLater(s.closeErr)
	}
}

// release saves the counts and frees everything else after the probes were removed. The caller holds the lock.
func (s *Session) release() {
	if s.released || !s.detached {
		return
	}
	s.released = true
	s.readCounts()
	s.readTables()
	s.unlisted = s.engine.Unlisted()
	s.readContexts()
	s.closeErr = join(s.closeErr, s.countErr, s.engine.Release(), s.proc.Close())
}
