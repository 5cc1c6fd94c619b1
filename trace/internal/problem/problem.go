package problem

import (
	"fmt"
	"strconv"
	"strings"
)

// A Severity is the severity of a [Problem]. Package trace documents what the severities mean.
type Severity uint8

const (
	Warning Severity = iota + 1
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return "Severity(" + strconv.Itoa(int(s)) + ")"
}

// A Code identifies a kind of problem. Package trace documents what each code means.
type Code string

// Problems in the framing of a trace: batches and generations.
const (
	Framing         Code = "framing"
	Truncated       Code = "truncated"
	BatchSize       Code = "batch-size"
	Generation      Code = "generation"
	GenerationGap   Code = "generation-gap"
	NoEnd           Code = "no-end"
	NoFrequency     Code = "no-frequency"
	NoClock         Code = "no-clock-snapshot"
	DuplicateSync   Code = "duplicate-sync"
	BadSync         Code = "bad-sync"
	Version         Code = "version"
	BadExperimental Code = "experimental"
)

// Problems in the contents of a batch.
const (
	UnknownEvent    Code = "unknown-event"
	Overflow        Code = "overflow"
	CutOff          Code = "cut-off"
	ZeroID          Code = "zero-id"
	DuplicateString Code = "duplicate-string"
	DuplicateStack  Code = "duplicate-stack"
	LongString      Code = "long-string"
	LongStack       Code = "long-stack"
	UnknownString   Code = "unknown-string"
	UnknownStack    Code = "unknown-stack"
	FrameConflict   Code = "frame-conflict"
	TimeOrder       Code = "time-order"
	TimeRange       Code = "time-range"
	BadStatus       Code = "bad-status"
	Stuck           Code = "stuck"
	NoThread        Code = "no-thread"
	NoProc          Code = "no-proc"
	NoGoroutine     Code = "no-goroutine"
	SecondProc      Code = "second-proc"
	SecondGoroutine Code = "second-goroutine"
	ProcOnTwo       Code = "proc-on-two"
	ProcStatus      Code = "proc-status"
	GoStatus        Code = "goroutine-status"
	UnknownProc     Code = "unknown-proc"
	UnknownGo       Code = "unknown-goroutine"
	EndedGo         Code = "ended-goroutine"
	GoExists        Code = "goroutine-exists"
	NoStatus        Code = "no-status"
	Contradiction   Code = "contradiction"
	WrongThread     Code = "wrong-thread"
	ProcSequence    Code = "proc-sequence"
	GoSequence      Code = "go-sequence"
	GCSequence      Code = "gc-sequence"
	GCPairing       Code = "gc-pairing"
	STWPairing      Code = "stw-pairing"
	SweepPairing    Code = "sweep-pairing"
	AssistPairing   Code = "assist-pairing"
	TaskExists      Code = "task-exists"
	TaskNotBegun    Code = "task-not-begun"
	RegionMismatch  Code = "region-mismatch"
	RegionNotBegun  Code = "region-not-begun"
	Refused         Code = "refused"
)

// A Problem is a defect of a trace and its position. Package trace has the same struct for its users, and documents the
// fields there.
type Problem struct {
	Code       Code
	Severity   Severity
	Offset     int64
	Generation uint64
	Batch      int
	Thread     int64
	Event      int
	Text       string
}

// Error returns the position and the description of the problem in one line.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "offset %d", p.Offset)
	if p.Generation != 0 {
		fmt.Fprintf(&b, ", generation %d", p.Generation)
	}
	if p.Batch >= 0 {
		fmt.Fprintf(&b, ", batch %d", p.Batch)
	}
	if p.Thread >= 0 {
		fmt.Fprintf(&b, ", M %d", p.Thread)
	}
	if p.Event >= 0 {
		fmt.Fprintf(&b, ", event %d", p.Event)
	}
	return b.String() + ": " + p.Text
}
