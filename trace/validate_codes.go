package trace

import (
	"fmt"
	"strconv"
	"strings"
)

// A Severity says how bad a Problem is.
type Severity uint8

const (
	// Warning is for what the trace readers of the Go toolchain accept, though no Go program writes it, or what is lost
	// to them without a word.
	Warning Severity = iota + 1
	// Error is for what makes the toolchain's reader refuse the trace, panic, or take it for ended.
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

// A Code names a kind of problem. Codes are stable: a program may compare them.
type Code string

// Problems of the framing: batches and generations.
const (
	CodeFraming         Code = "framing"           // there is something else where a batch must begin
	CodeTruncated       Code = "truncated"         // the trace ends within something
	CodeBatchSize       Code = "batch-size"        // a batch has more than 64 KiB
	CodeGeneration      Code = "generation"        // a generation's number is 0, or generations are mixed or out of order
	CodeGenerationGap   Code = "generation-gap"    // a generation's number is not that of the one before and one
	CodeNoEnd           Code = "no-end"            // a generation has no EndOfGeneration, from Go 1.26 on
	CodeNoFrequency     Code = "no-frequency"      // a generation does not say how long a tick is
	CodeNoClock         Code = "no-clock-snapshot" // a generation does not relate clocks, from Go 1.25 on
	CodeDuplicateSync   Code = "duplicate-sync"    // a generation says it twice
	CodeBadSync         Code = "bad-sync"          // what it says cannot be
	CodeVersion         Code = "version"           // an event that the trace's version does not have
	CodeBadExperimental Code = "experimental"      // a batch of an unknown experiment, or with content that is not the experiment's
)

// Problems of what stands in a batch.
const (
	CodeUnknownEvent    Code = "unknown-event"     // an event type that does not exist, or must not be there
	CodeOverflow        Code = "overflow"          // a number of more than 64 bits
	CodeCutOff          Code = "cut-off"           // an event, string or stack that goes on beyond the end of its batch
	CodeZeroID          Code = "zero-id"           // the ID 0, which means none
	CodeDuplicateString Code = "duplicate-string"  // two strings with one ID in a generation
	CodeDuplicateStack  Code = "duplicate-stack"   // two stacks with one ID in a generation
	CodeLongString      Code = "long-string"       // a string of more than 1024 bytes
	CodeLongStack       Code = "long-stack"        // a stack of more than 128 frames
	CodeUnknownString   Code = "unknown-string"    // an ID that the generation's strings do not have
	CodeUnknownStack    Code = "unknown-stack"     // an ID that the generation's stacks do not have
	CodeFrameConflict   Code = "frame-conflict"    // a program counter with another function, file or line than before
	CodeTimeOrder       Code = "time-order"        // a time that is not later than that of the event before on the thread
	CodeTimeRange       Code = "time-range"        // a time beyond what readers can represent
	CodeBadStatus       Code = "bad-status"        // a status that does not exist
	CodeStuck           Code = "stuck"             // no order of the events is possible, for another reason than those below
	CodeNoThread        Code = "no-thread"         // an event that needs a thread, in a batch of none
	CodeNoProc          Code = "no-proc"           // an event that needs a P, on a thread without
	CodeNoGoroutine     Code = "no-goroutine"      // an event that needs a goroutine, on a thread without
	CodeSecondProc      Code = "second-proc"       // a thread takes a P and has one
	CodeSecondGoroutine Code = "second-goroutine"  // a thread runs a goroutine and another one begins
	CodeProcOnTwo       Code = "proc-on-two"       // a P that a thread has, taken by another thread
	CodeProcStatus      Code = "proc-status"       // an event that does not fit what its P does
	CodeGoStatus        Code = "goroutine-status"  // an event that does not fit what its goroutine does
	CodeUnknownProc     Code = "unknown-proc"      // a P of which the trace has not told before
	CodeUnknownGo       Code = "unknown-goroutine" // a goroutine of which the trace has not told before
	CodeEndedGo         Code = "ended-goroutine"   // a goroutine that has ended is used again
	CodeGoExists        Code = "goroutine-exists"  // a goroutine is created that there is already
	CodeNoStatus        Code = "no-status"         // a goroutine or P is used in a generation that has not told its status
	CodeContradiction   Code = "contradiction"     // a generation tells another status than follows from the one before
	CodeWrongThread     Code = "wrong-thread"      // an event names a thread that has another goroutine or P
	CodeProcSequence    Code = "proc-sequence"     // a P's sequence number is not the next one
	CodeGoSequence      Code = "go-sequence"       // a goroutine's sequence number is not the next one
	CodeGCSequence      Code = "gc-sequence"       // the collector's sequence number is not the next one
	CodeGCPairing       Code = "gc-pairing"        // a collection begins within another one, or ends without a begin
	CodeSTWPairing      Code = "stw-pairing"       // the same for stops of the world
	CodeSweepPairing    Code = "sweep-pairing"     // the same for sweeping
	CodeAssistPairing   Code = "assist-pairing"    // the same for mark assists
	CodeTaskExists      Code = "task-exists"       // a task begins that has begun already
	CodeTaskNotBegun    Code = "task-not-begun"    // a task ends of which the begin is not in the trace
	CodeRegionMismatch  Code = "region-mismatch"   // a region ends that is not the innermost one
	CodeRegionNotBegun  Code = "region-not-begun"  // a region ends of which the begin is not in the trace
	CodeRefused         Code = "refused"           // a trace of Go 1.21 or before that the toolchain's reader refuses
)

// A Problem is something wrong in a trace, and where.
type Problem struct {
	Code     Code
	Severity Severity
	// Offset is the offset in bytes of the event, batch or generation in the trace.
	Offset int64
	// Generation is its generation's number; 0 when it is in none.
	Generation uint64
	// Batch is the number of its batch in the trace, counted from 0; -1 when it is in none.
	Batch int
	// Thread is the ID of the batch's thread; -1 when it has none. Batches of strings and the like have none.
	Thread int64
	// Event is the number of the event in the batch, counted from 0; -1 when it is not about an event.
	Event int
	// Text says what is wrong, in one line.
	Text string
}

// Error returns the place and what is wrong there, in one line.
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
