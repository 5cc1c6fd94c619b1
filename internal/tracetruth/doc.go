// Package tracetruth holds a stream of Loupe's events against the truth: the execution trace that the observed program
// recorded of itself meanwhile.
//
// The central type is Trace, made by Parse from a file of runtime/trace (Go 1.12 and later). Compare puts it beside the
// events of the same time and returns a Report. It is support for tests.
//
// # What is compared
//
// Both sides become lanes: for each goroutine, what happened to it and what it did to others (created, woke), in order.
// Since what goroutines do to each other is in two lanes, equal lanes mean equal causes: the same partial order of all
// events. Then the fields of each pair of events are compared: parent, waker, reasons, start function, stack (function
// and line of each frame), time; and the lengths of waits and runs.
//
// Only the time between the first and the last mark that the program wrote into its trace counts. Near those the program
// rests. What Loupe saw in the slack beyond them may be left over.
//
// # Clocks
//
// A mark carries the value of CLOCK_MONOTONIC right before it was written. That maps the time of a trace (processor ticks
// before Go 1.22, CLOCK_MONOTONIC since) to CLOCK_MONOTONIC. A thread that loses the processor between a sequence number and
// its reading of the clock writes a late time, and the reader of the trace moves the earlier times of later events behind it.
// The trace alone shows which times were moved. They are counted in the report and not compared, and marks that have them do
// not count.
//
// Event.Time is CLOCK_MONOTONIC plus a constant for the observation. Options.Offset bounds that constant, as measured around
// loupe.Attach by ClockOffset; Compare takes the value in these bounds that fits best.
//
// # Rules
//
// Where both observers are right and differ nevertheless, a Rule says why. Each use is counted in the report. Everything
// else is a failure.
//
// A Script does without a trace: it holds events against what the program says that it did, each step of which is
// certain because the program looked before it went on.
package tracetruth
