package probe

import (
	"context"
	"errors"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Reasons why an engine cannot work; another one may. They wrap the errors of package goproc that concern the process itself.
var (
	// ErrPermission reports that the user is not permitted to attach probes. It wraps goproc.ErrPermission.
	ErrPermission error = &reason{"not permitted", goproc.ErrPermission}
	// ErrUnsupported reports that the kernel or the machine does not support the engine. It wraps goproc.ErrUnsupported.
	ErrUnsupported error = &reason{"not supported here", goproc.ErrUnsupported}
)

// A reason is a sentinel that wraps a more general one.
type reason struct {
	text    string
	general error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.general }

// An Engine executes a Plan: it attaches probes to the target and returns their records.
//
// An engine is used by one goroutine, except for Counts, Totals, Table, Sample, Used, Wake and Stop.
type Engine interface {
	// Attach attaches the probes, which do nothing until Enable. A probe that cannot be attached does not affect the
	// others and causes a warning. The error reports that the engine cannot be attached at all. It wraps ErrPermission or
	// ErrUnsupported if that is the reason.
	Attach(plan *Plan) (warnings []event.Warning, err error)

	// Warnings returns the warnings since Attach, one line each. It may be called from any goroutine.
	Warnings() []event.Warning

	// Enable enables all probes at the same moment.
	Enable()

	// Sample changes which goroutines are sampled: Plan.Rule applies until then. Probes that are being hit may still apply the previous
	// rule. It has no effect after Release.
	Sample(rule sampling.Rule)

	// List adds goroutines to those that the filters select or exclude.
	List(goroutines []uint64) error

	// Unlist removes a goroutine from these.
	Unlist(goroutine uint64) error

	// Disown makes the requests that a goroutine sends no part of the request in which it was created. If it serves another one
	// meanwhile, they are part of that.
	Disown(goroutine uint64)

	// Unlisted returns the number of goroutines for which a filter had no room.
	Unlisted() uint64

	// Drain calls record with each available record, in order, until record returns false. The bytes are valid only during
	// the call. Drain does not wait. It reports whether no record is left that was there when it was called.
	Drain(record func(raw []byte) bool) (all bool)

	// DrainAll is like Drain, and waits for records that are being written. It reports whether record was called with the records of all
	// probes that were hit before the call.
	DrainAll(record func(raw []byte) bool) (all bool)

	// Wait waits until there may be records. It returns false if there will be no more because the target has ended, the
	// context is done, or Stop was called.
	Wait(ctx context.Context) bool

	// Wake makes the current call of Wait, or the next one, return.
	Wake()

	// Lost returns the number of records lost so far, modulo 2^32.
	Lost() uint32

	// InGap reports whether, at the record that Drain passes, the loss of another record may not yet be reported completely: it
	// happened before a later record. Lost events are then reported at the begin and at the end of the gap.
	InGap() bool

	// NewEpoch makes the probes send all stacks again, with new IDs.
	NewEpoch()

	// TimeError returns the error bound of the times of the drained events. It is zero if a clock is read for each event.
	TimeError() event.TimeError

	// Counts returns the event counts, indexed by kind.
	Counts() ([event.KindLimit]csrc.Count, error)

	// Totals returns the sums of what the probes count on all CPUs.
	Totals() (csrc.Totals, error)

	// Used returns the part of the buffer that is in use, from 0 to 1. If it has several parts, it is that of the fullest.
	Used() float64

	// Table returns the contents of a table. set is an index of Plan.Sets, and table an index of the set's Tables.
	Table(set, table int) (Cells, error)

	// Stop makes the current and all later calls of Wait return. It may be called from any goroutine.
	Stop()

	// Close removes the probes. Existing records can still be drained and counted until Release. Close can be called again
	// if MayCloseLater returns true for its error.
	Close() error

	// Release frees the memory of the engine.
	Release() error
}

// MayCloseLater reports whether an error of Engine.Close has a cause that may end: another tracer of the process, a
// process that cannot be stopped because its cgroup is frozen, or a thread that does not leave the probes' code.
func MayCloseLater(err error) bool {
	traced, still := (*ptrace.TracedError)(nil), (*ptrace.StillError)(nil)
	return errors.As(err, &traced) || errors.As(err, &still) || errors.Is(err, ptrace.ErrBusy)
}
