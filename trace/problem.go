package trace

import (
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/problem"
)

// A Severity is the severity of a [Problem]. Its String method returns "warning" or "error".
type Severity = problem.Severity

const (
	// Warning marks something that the trace readers of the Go toolchain accept although no Go program writes it, or that
	// they drop silently.
	Warning Severity = problem.Warning
	// Error marks something that makes the toolchain's reader reject the trace, panic, or assume that the trace has
	// ended.
	Error Severity = problem.Error
)

// A Code identifies a kind of problem. Codes are stable, so programs can compare them.
type Code = problem.Code

// Problems in the framing of a trace: batches and generations.
const (
	CodeFraming         Code = problem.Framing         // no batch begins where one is expected
	CodeTruncated       Code = problem.Truncated       // the trace ends in the middle of a batch or an event
	CodeBatchSize       Code = problem.BatchSize       // a batch is larger than 64 KiB
	CodeGeneration      Code = problem.Generation      // a generation has the number 0, or generations are mixed or out of order
	CodeGenerationGap   Code = problem.GenerationGap   // the number of a generation is not that of the previous one plus 1
	CodeNoEnd           Code = problem.NoEnd           // a generation has no EndOfGeneration (Go 1.26 and later)
	CodeNoFrequency     Code = problem.NoFrequency     // a generation has no Frequency, so the duration of a tick is unknown
	CodeNoClock         Code = problem.NoClock         // a generation has no ClockSnapshot (Go 1.25 and later)
	CodeDuplicateSync   Code = problem.DuplicateSync   // a generation has two Frequency or ClockSnapshot events
	CodeBadSync         Code = problem.BadSync         // a Frequency or ClockSnapshot has an impossible value
	CodeVersion         Code = problem.Version         // an event does not exist in the trace's version
	CodeBadExperimental Code = problem.BadExperimental // a batch belongs to an unknown experiment, or does not have the contents of its experiment
)

// Problems in the contents of a batch.
const (
	CodeUnknownEvent    Code = problem.UnknownEvent    // an event type does not exist, or is not permitted here
	CodeOverflow        Code = problem.Overflow        // a number has more than 64 bits
	CodeCutOff          Code = problem.CutOff          // an event, string or stack extends beyond the end of its batch
	CodeZeroID          Code = problem.ZeroID          // an ID is 0, which is reserved for no value
	CodeDuplicateString Code = problem.DuplicateString // two strings in a generation have the same ID
	CodeDuplicateStack  Code = problem.DuplicateStack  // two stacks in a generation have the same ID
	CodeLongString      Code = problem.LongString      // a string is longer than 1024 bytes, or 1,000,000 bytes before Go 1.22
	CodeLongStack       Code = problem.LongStack       // a stack has more than 128 frames, or 1000 frames before Go 1.22
	CodeUnknownString   Code = problem.UnknownString   // a string ID is not defined in the generation
	CodeUnknownStack    Code = problem.UnknownStack    // a stack ID is not defined in the generation
	CodeFrameConflict   Code = problem.FrameConflict   // a program counter has a different function, file or line than before
	CodeTimeOrder       Code = problem.TimeOrder       // a time is not later than that of the previous event on the thread
	CodeTimeRange       Code = problem.TimeRange       // a time is outside the range that readers can represent
	CodeBadStatus       Code = problem.BadStatus       // a status does not exist
	CodeStuck           Code = problem.Stuck           // the events cannot be ordered, for a reason other than those below
	CodeNoThread        Code = problem.NoThread        // an event requires a thread, but its batch has none
	CodeNoProc          Code = problem.NoProc          // an event requires a P, but its thread has none
	CodeNoGoroutine     Code = problem.NoGoroutine     // an event requires a goroutine, but its thread runs none
	CodeSecondProc      Code = problem.SecondProc      // a thread that has a P acquires another one
	CodeSecondGoroutine Code = problem.SecondGoroutine // a thread that runs a goroutine starts another one
	CodeProcOnTwo       Code = problem.ProcOnTwo       // a thread acquires a P that another thread has
	CodeProcStatus      Code = problem.ProcStatus      // an event does not fit the status of its P
	CodeGoStatus        Code = problem.GoStatus        // an event does not fit the status of its goroutine
	CodeUnknownProc     Code = problem.UnknownProc     // a P is not known from earlier events
	CodeUnknownGo       Code = problem.UnknownGo       // a goroutine is not known from earlier events
	CodeEndedGo         Code = problem.EndedGo         // a goroutine is used after it has ended
	CodeGoExists        Code = problem.GoExists        // a goroutine is created that already exists
	CodeNoStatus        Code = problem.NoStatus        // a goroutine or P is used in a generation before its status is given
	CodeContradiction   Code = problem.Contradiction   // a generation gives a different status than follows from earlier events
	CodeWrongThread     Code = problem.WrongThread     // an event names a thread that has another goroutine or P
	CodeProcSequence    Code = problem.ProcSequence    // the sequence number of a P is not the next one
	CodeGoSequence      Code = problem.GoSequence      // the sequence number of a goroutine is not the next one
	CodeGCSequence      Code = problem.GCSequence      // the sequence number of the garbage collector is not the next one
	CodeGCPairing       Code = problem.GCPairing       // a garbage collection begins during another one, or ends without having begun
	CodeSTWPairing      Code = problem.STWPairing      // an STW pause begins during another one, or ends without having begun
	CodeSweepPairing    Code = problem.SweepPairing    // sweeping begins while it is in progress, or ends without having begun
	CodeAssistPairing   Code = problem.AssistPairing   // a mark assist begins during another one, or ends without having begun
	CodeTaskExists      Code = problem.TaskExists      // a task begins that has already begun
	CodeTaskNotBegun    Code = problem.TaskNotBegun    // a task ends, but its beginning is not in the trace
	CodeRegionMismatch  Code = problem.RegionMismatch  // a region ends that is not the innermost one
	CodeRegionNotBegun  Code = problem.RegionNotBegun  // a region ends, but its beginning is not in the trace
	CodeRefused         Code = problem.Refused         // the toolchain's reader rejects a trace of Go 1.21 or earlier
)

// A Problem is a defect of a trace and its position.
type Problem struct {
	Code     Code
	Severity Severity
	// Offset is the offset in bytes of the event, batch or generation in the trace.
	Offset int64
	// Generation is the number of the generation, or 0 if the problem is not in a generation.
	Generation uint64
	// Batch is the index of the batch in the trace, or -1 if the problem is not in a batch. The first batch has index 0.
	Batch int
	// Thread is the thread ID of the batch, or -1 if it has none. For example, batches of strings have none.
	Thread int64
	// Event is the index of the event in the batch, or -1 if the problem is not in an event. The first event has index 0.
	Event int
	// Text describes the problem in one line.
	Text string
}

// Error returns the position and the description of the problem in one line.
func (p *Problem) Error() string { return (*problem.Problem)(p).Error() }

// publicError returns an error as the type that users of this package know.
func publicError(err error) error {
	switch err := err.(type) {
	case *problem.Problem:
		return (*Problem)(err)
	case *memory.Error:
		return (*MemoryError)(err)
	}
	return err
}

// publicProblems returns problems as the type that users of this package know; nil if there are none.
func publicProblems(list []problem.Problem) (all []Problem) {
	for _, p := range list {
		all = append(all, Problem(p))
	}
	return all
}
