package probe

import (
	"context"
	"errors"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// Reasons why an engine cannot do its work here.
var (
	// ErrPermission says that this user may not attach probes.
	ErrPermission = errors.New("not permitted")
	// ErrUnsupported says that the kernel or the machine cannot do it.
	ErrUnsupported = errors.New("not supported here")
)

// TimeError bounds how far the times of events are off.
type TimeError struct {
	P99, Max time.Duration // of 99 % of the events, and of all
}

// Engine carries out a Plan: it makes probes fire in the target and brings their records.
//
// An engine is used by one goroutine, except for Counts and Stop.
type Engine interface {
	// Attach puts the probes in place. They do nothing until Enable. A probe that fails leaves the others alone; it is
	// said in a warning. The error is about the whole; it wraps ErrPermission or ErrUnsupported where that is the reason.
	Attach(plan *Plan) (warnings []string, err error)

	// Warnings returns what has come up since Attach, one line each. It may be called from any goroutine.
	Warnings() []string

	// Enable lets all probes begin at the same moment.
	Enable()

	// List adds goroutines to those that the filters report or leave out.
	List(goroutines []uint64) error

	// Drain calls record with each record that is there, in order, until it returns false. The bytes are valid during
	// the call only. It does not wait.
	Drain(record func(raw []byte) bool)

	// DrainAll is Drain for all that probes have told before the call. It waits a moment for what they are just about to say.
	DrainAll(record func(raw []byte) bool)

	// Wait waits until there may be records. It returns false when no more will come: the target has ended, the context
	// is done, or Stop was called.
	Wait(ctx context.Context) bool

	// Lost returns how many records were lost so far, modulo 2^32.
	Lost() uint32

	// NewEpoch makes the probes send all stacks anew, by other identities.
	NewEpoch()

	// TimeError returns how far the times of the drained events can be off; zero where each event has its own reading of a clock.
	TimeError() TimeError

	// Counts returns what became of the events, by the number of their kind.
	Counts() ([event.KindLimit]csrc.Count, error)

	// Stop makes Wait return, now and later. It may be called from any goroutine.
	Stop()

	// Close removes the probes. Records that were there can still be drained and counted until Release. It can be called
	// again if MayCloseLater reports so of its error.
	Close() error

	// Release gives back the memory.
	Release() error
}

// MayCloseLater reports whether an error of Engine.Close is due to something that may end: another tracer of the process, a
// process that cannot be stopped because its cgroup is frozen, or a thread that does not leave the probes' code.
func MayCloseLater(err error) bool {
	traced, still := (*ptrace.TracedError)(nil), (*ptrace.StillError)(nil)
	return errors.As(err, &traced) || errors.As(err, &still) || errors.Is(err, ptrace.ErrBusy)
}
