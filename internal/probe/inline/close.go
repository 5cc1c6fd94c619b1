package inline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// Stop implements probe.Engine.
func (e *Engine) Stop() {
	if e.watch != nil {
		e.watch.stop()
	}
}

// Close implements probe.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	if e.region != nil {
		e.awaitLoans()
		e.region.Enable(false)
	}
	if e.in == nil || e.watch == nil { // nothing was put anywhere
		e.closed = true
		return nil
	}
	if e.watch.places != nil && !e.watch.closing.Load() {
		e.watch.places.look(e.watch.closing.Load)
	}
	e.watch.closing.Store(true)
	err := e.remove()
	if probe.MayCloseLater(err) {
		return e.stays(err)
	}
	e.closed = true
	if err != nil {
		return fmt.Errorf("not everything could be removed: run loupe doctor %d --repair (%w)", e.plan.PID, err)
	}
	if e.in.lent {
		e.log.Warn("memory stays in the process: messages that it has not sent yet have their traceparent header there", "pid", e.plan.PID, "bytes", csrc.LoansSize)
	}
	e.log.Debug("code removed", "pid", e.plan.PID, "stopped for", e.in.standing)
	return nil
}

// stays is the error of Close while something prevents it that may end.
func (e *Engine) stays(err error) error {
	pid := e.plan.PID
	if held := (*ptrace.TracedError)(nil); errors.As(err, &held) {
		return fmt.Errorf("the probes are off, but their code stays in process %d while %s traces it: stop that tracer, then run loupe doctor %d --repair (%w)",
			pid, ptrace.TracerWords(held.Tracer, held.Name), pid, err)
	}
	if errors.Is(err, ptrace.ErrBusy) {
		return fmt.Errorf("the probes are off, but their code stays in process %d because a thread is still executing it: resume the process if it is frozen, then run loupe doctor %d --repair (%w)",
			pid, pid, err)
	}
	return fmt.Errorf("the probes are off, but their code stays in process %d because its threads cannot be stopped: resume it, then run loupe doctor %d --repair (%w)",
		pid, pid, err)
}

// remove removes the code. The first time it waits for another tracer of the process to end. A process that stood still, or one
// of whose threads did not leave the code, gets less time the next time.
func (e *Engine) remove() error {
	if e.removeBy.IsZero() {
		e.removeBy = time.Now().Add(patience)
	}
	for {
		err := e.in.remove()
		still, busy := (*ptrace.StillError)(nil), errors.Is(err, ptrace.ErrBusy) // a frozen thread may stop, but stays in the code
		switch {
		case e.still != nil && errors.Is(err, context.DeadlineExceeded):
			return e.still
		case errors.As(err, &still), busy && e.still == nil:
			e.still, e.in.patience = err, patienceStill
			return err
		case busy && e.in.patience == 0: // it did not run for all this time
			e.in.patience = patienceStill
			return e.still
		case busy: // it may run again
			e.in.patience = 0
			continue
		}
		if held := (*ptrace.TracedError)(nil); !errors.As(err, &held) || time.Now().After(e.removeBy) {
			return err
		}
		time.Sleep(pauseHeld)
	}
}

// pauseHeld is the time between two tries to stop a process that another tracer holds.
const pauseHeld = 50 * time.Millisecond

// StoodStill returns the longest that all threads of the process stood still for what was done to it last: for Attach, or
// for Close.
func (e *Engine) StoodStill() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.in == nil {
		return 0
	}
	return e.in.standing
}

// Release implements probe.Engine.
func (e *Engine) Release() error {
	var errs []error
	if e.region != nil {
		e.log.Debug("lane statistics", "late", e.reader.Late(), "garbled", e.reader.Garbled(), "stacks to resend", e.region.StacksLost(),
			"goroutines that exceed the filter", e.region.Unlisted())
	}
	if e.watch != nil {
		errs = append(errs, e.watch.close())
	}
	if e.pulse != nil {
		e.pulse.end()
		e.pulse = nil
	}
	if e.in != nil && e.in.shared != nil {
		errs = append(errs, e.in.shared.Close())
		e.in.shared = nil
	}
	e.region, e.reader = nil, nil
	return errors.Join(errs...)
}
