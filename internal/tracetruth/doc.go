// Package tracetruth compares a stream of Loupe's events with the truth: the execution trace that the observed program
// recorded of itself at the same time.
//
// The central type is [Trace]. [Parse] reads it from a runtime/trace file (Go 1.12 and later). [Compare] compares it with
// the events of the same period and returns a [Report]. The package is only used by tests.
//
// # What is compared
//
// Both sides are converted to lanes. The lane of a goroutine lists, in order, what happened to the goroutine and what
// it did to others (created, woke). An action between two goroutines is in both lanes, so equal lanes imply equal
// causality: the same partial order of all events. For each pair of events, the fields are compared: parent, waker,
// reasons, start function, stack (function and line of each frame) and time. The durations of waits and of running are
// compared as well. Stacks are compared for every kind that has one in the trace: GoCreate, GoStop, GoBlock, GoUnblock,
// GoSyscallBegin, GCBegin and, since Go 1.22, STWBegin. Report.Stacks counts them.
//
// Only the time between the first and the last mark that the program wrote to its trace is compared. The program is
// idle around these marks. Events that Loupe observed in the short periods before the first and after the last mark may
// have no counterpart.
//
// # Clocks
//
// A mark contains the value of CLOCK_MONOTONIC immediately before it was written. The marks map the time of a trace to
// CLOCK_MONOTONIC: by a line before Go 1.22, when it is in processor ticks, and by a constant since then. If a thread is
// preempted between getting a sequence number and reading the clock, it writes a time that is too late, and the trace
// reader moves the earlier times of later events to after it. The trace itself shows which times were moved. They are
// counted in the report and not compared, and marks with such times are ignored.
//
// Event.Time is CLOCK_MONOTONIC plus a constant offset for the session. Options.Offset is an interval that contains the
// offset, as measured by [ClockOffset] before and after loupe.Attach. Compare uses the value in the interval that fits
// best.
//
// # Rules
//
// If both observers are right but differ, a [Rule] explains the reason. Each use of a rule is counted in the report. All
// other differences are failures.
//
// A [Script] does not need a trace. It compares events with the program's own account of what it did. Each step in that
// account is certain, because the program checked it before it continued.
package tracetruth
