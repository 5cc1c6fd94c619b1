package probe

import (
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

// Session is an observation under way: a process, an engine, and what has come of it.
type Session struct {
	proc     *goproc.Process
	engine   Engine
	plan     *Plan
	decoder  *decoder
	warnings []string

	first    *initialList // the goroutines that were alive at the start
	buffered *backlog     // records received during the snapshot

	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex // guards what follows
	received [event.KindLimit]uint64
	garbled  uint64
	yielded  uint64
	doubt    TimeError
	err      error
	closeErr error
	counts   [event.KindLimit]Counts // as last read from the engine
	countErr error                   // why they could not be read since

	started, running           bool // Events has been called, and is yielding
	detached, closed, released bool
}

// Counts are the numbers of one kind of events. Unreadable is the part of Lost that is due to failed reads of the target's memory.
type Counts struct {
	Produced, Received, Lost, Unreadable uint64
}

// Open begins to observe a process. The session owns the process and the engine from then on, also when Open fails.
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
	s.decoder = newDecoder(s.proc, s.engine, plan, clockOffset())
	if warnings, err = s.attach(plan); err != nil {
		return err
	}
	s.warnings = append(s.warnings, warnings...)
	if n := s.proc.Plugins(); n > 0 {
		s.Warn(fmt.Sprintf("plugins are loaded (%d), each with its own copy of runtime functions: events in these copies are not reported", n))
	}
	s.engine.Enable()
	return nil
}

func (s *Session) attach(plan *Plan) ([]string, error) {
	unlock, err := s.proc.Lock(s.ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.engine.Attach(plan)
}

// OpenRunning is Open for a process that runs: it takes the snapshot with which the events begin.
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

// Observed returns the IDs of the goroutines that are alive now and that the filters let pass.
func (s *Session) Observed() ([]uint64, error) {
	var ids []uint64
	err := s.proc.EachAlive(func(id uint64, system bool) {
		if s.selects(&goproc.Goroutine{ID: id, System: system}) {
			ids = append(ids, id)
		}
	})
	return ids, err
}

// Engine returns the engine that observes.
func (s *Session) Engine() Engine { return s.engine }

// Warnings returns what the user should know, one line each.
func (s *Session) Warnings() []string {
	return slices.Concat(event.WarningTexts(s.proc.Warnings()), s.warnings, s.engine.Warnings())
}

// Warn adds a warning, before others use the session.
func (s *Session) Warn(text string) { s.warnings = append(s.warnings, text) }

// PID returns the observed process.
func (s *Session) PID() int { return s.proc.PID() }

// Process returns the observed process.
func (s *Session) Process() *goproc.Process { return s.proc }

// Events yields what happens until the target ends, the context is done or the session is detached or closed. It may be
// called once.
func (s *Session) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		if !s.start() {
			return
		}
		defer s.stop()
		n := uint64(0)
		goOn := s.run(func(ev *event.Event) bool {
			if ev.Kind != event.Lost { // a mark, not an event
				n++
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
	for goOn && !ended {
		s.engine.Drain(record)
		if !goOn || ended || !s.engine.Wait(s.ctx) {
			break
		}
	}
	if goOn && !ended {
		s.engine.Close() // no records are added after this
		s.engine.Drain(record)
	}
	if ended {
		s.fail(fmt.Errorf("process %d: %w", s.PID(), goproc.ErrReplaced))
	}
	return goOn
}

// finish reports losses that no record has reported.
func (s *Session) finish(yield func(*event.Event) bool, n uint64) {
	if lost := max(0, int32(s.engine.Lost()-s.decoder.lost)); lost > 0 || s.decoder.missing {
		s.decoder.lost += uint32(lost)
		s.decoder.yieldLost(monotonic()+s.decoder.offset, int64(lost), yield)
	}
	s.account(n)
}

// account publishes the numbers.
func (s *Session) account(yielded uint64) {
	doubt := s.engine.TimeError()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received, s.garbled, s.yielded, s.doubt = s.decoder.received, s.decoder.garbled, yielded, doubt
}

// TimeError returns how far the times of the events so far can be off.
func (s *Session) TimeError() TimeError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubt
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Err returns why the events ended; nil when the target ended, the context was done or the session was closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// End ends the session with an error.
func (s *Session) End(err error) {
	s.fail(err)
	s.engine.Stop()
}

// Numbers returns how many events were yielded and what became of them, by kind. If the engine's
// numbers cannot be read, it returns those that were read last, and the error.
func (s *Session) Numbers() (yielded uint64, kinds map[event.Kind]Counts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds = map[event.Kind]Counts{}
	if s.garbled > 0 {
		err = fmt.Errorf("%s could not be decoded", english.Count(s.garbled, "record"))
	}
	if !s.released {
		s.readCounts()
	}
	if s.countErr != nil {
		err = s.countErr // more is unknown than what the records that made no sense were
	}
	for k, c := range s.counts {
		c.Received = s.received[k]
		if c == (Counts{}) {
			continue
		}
		kind := event.Kind(k)
		if uint8(k) == csrc.KindSwitch {
			kind = event.GoSwitch
		}
		kinds[kind] = c
	}
	return s.yielded, kinds, err
}

// readCounts reads the counts of the engine. If that fails, it keeps the previous ones. The caller holds the lock.
func (s *Session) readCounts() {
	raw, err := s.engine.Counts()
	if s.countErr = err; err != nil {
		return
	}
	for k, c := range raw {
		s.counts[k] = Counts{Produced: c.Produced, Lost: c.NoRoom + c.Unreadable, Unreadable: c.Unreadable}
	}
}

// start records that events are being yielded, so that their memory is kept until stop. It returns false if they were, or
// if the session is closed.
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

// Detach removes the probes, also while Events yields to a consumer that is held up. Events still yields what is in the
// buffer. It may be called more than once.
func (s *Session) Detach() error {
	s.engine.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach()
	return s.closeErr
}

// Close ends the observation and leaves the target as it was. It may be called more than once, and while Events yields:
// then Events ends after what is already there. While another tracer of the process or a frozen cgroup prevents that, it returns
// an error after some seconds, and can be called again.
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

// detach removes the probes. If what prevents it may end, the next call tries again. The caller holds the lock.
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
	s.closeErr = join(s.closeErr, s.countErr, s.engine.Release(), s.proc.Close())
}
