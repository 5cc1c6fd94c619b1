package probe

import (
	"fmt"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
)

// sample is which goroutines are sampled. It is guarded by Session.mu.
type sample struct {
	want   sampling.Rule // as requested last
	probes sampling.Rule // of the probes

	// fewest is the rule that selected the fewest goroutines since the reader last looked, and fell the time, on the monotonic clock,
	// at which the probes began to select fewer; 0: they did not.
	fewest sampling.Rule
	fell   int64
}

// Sample changes the part of the goroutines that are sampled. A smaller part applies to the probes at once, a larger one when Events comes to
// it. Events then yields a Resample, and a GoStatus of each goroutine that begins to be sampled. It may be called from any goroutine.
func (s *Session) Sample(ratio float64) error {
	rule, err := sampling.Of(ratio)
	if err != nil {
		return err
	}
	if s.plan.Want.Requests {
		return fmt.Errorf("%w: the goroutines of requests are not sampled", ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.sample
	if c.want = rule; s.released {
		return nil
	}
	if rule > c.probes {
		s.engine.Sample(rule)
		c.probes, c.fewest = rule, max(c.fewest, rule)
		if c.fell == 0 {
			c.fell = monotonic()
		}
	}
	s.engine.Wake()
	return nil
}

// Ratio returns the part of the goroutines that the probes sample now.
func (s *Session) Ratio() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sample.probes.Ratio()
}

// resample brings the stream to the rule that was requested last. record and yield are those of run.
func (s *Session) resample(record func([]byte) bool, yield func(*event.Event) bool) {
	if s.plan.Want.Requests {
		return
	}
	s.mu.Lock()
	c := &s.sample
	fewest, fell, want := c.fewest, c.fell, c.want
	c.fewest, c.fell = c.probes, 0
	s.mu.Unlock()
	if fewest > s.decoder.rule {
		s.decoder.rule = fewest // events of others that are in the buffer are dropped
		if !s.mark(fell, fewest, yield) {
			return
		}
	}
	if want < s.decoder.rule {
		s.rise(record, yield)
	}
}

// mark yields a Resample.
func (s *Session) mark(now int64, rule sampling.Rule, yield func(*event.Event) bool) bool {
	s.decoder.ev = event.Event{Time: now + s.decoder.offset, Kind: event.Resample, PID: s.decoder.pid, Value: rule.Share()}
	return yield(&s.decoder.ev)
}

// rise makes the probes sample more goroutines. As begin does, it takes a snapshot for the states of those that begin to be sampled.
func (s *Session) rise(record func([]byte) bool, yield func(*event.Event) bool) {
	goOn := true
	s.engine.DrainAll(func(raw []byte) bool { // no event of a goroutine that begins to be sampled is older than its first state
		goOn = record(raw)
		return goOn
	})
	s.accountNotes()
	if !goOn {
		return
	}
	start := monotonic()
	s.mu.Lock()
	c, before := &s.sample, s.decoder.rule
	rule, fell := c.want, c.fell != 0 // since resample looked, which does so again
	if rule < before && !fell {
		s.engine.Sample(rule)
		c.probes, c.fewest = rule, rule
	}
	s.mu.Unlock()
	if rule >= before || fell {
		return
	}
	list, ok := s.states(start, func(goroutine uint64) bool { return rule.Selects(goroutine) && !before.Selects(goroutine) })
	goOn = true
	if ok {
		s.decoder.rule = rule
		goOn = s.mark(start, rule, yield) && list.yield(yield)
	}
	if goOn {
		s.buffered.drain(record)
	}
	s.buffered = nil
}

// states returns the list of goroutines that begin to be sampled. ok is false if the session or the process has ended.
func (s *Session) states(start int64, sampled func(uint64) bool) (list *initialList, ok bool) {
	if !s.plan.Want.Kinds.Has(event.GoStatus) {
		return nil, true
	}
	snap, err := s.snapshot(sampled)
	switch {
	case err != nil && (s.ctx.Err() != nil || s.proc.Ended() != nil):
		return nil, false
	case err != nil:
		s.warnLate(event.Warnf(event.WarnState, "the states of goroutines that began to be sampled were unknown until their next event: %v", err))
		return nil, true
	case len(snap.warnings) > 0:
		s.warnLate(snap.warnings[0])
	}
	s.complete(snap.list, start, sampled)
	return snap.list, true
}

// warnLate adds a warning, unless one was added before: there may be many.
func (s *Session) warnLate(w event.Warning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.late == nil {
		s.late = []event.Warning{w}
	}
}
