// Package chrome writes events in the Trace Event Format, a JSON format that chrome://tracing, ui.perfetto.dev and other
// viewers read.
//
// The central type is [Writer]. Package timeline decides what is drawn, and this package encodes it. Goroutines are
// written as the threads of the process, with the goroutine ID as the thread ID. What does not belong to a goroutine is
// written as asynchronous events, which viewers draw separately from the threads: garbage collections, STW pauses, lost
// events, tasks and regions. With Options.Threads, a second process contains the kernel's threads. Its ID is the ID of
// the process plus 1<<22, which is larger than any process ID in Linux.
//
// The document is an object with the array traceEvents. It is valid JSON after Close, no matter when Close is called.
// Times are microseconds since the first event, with three decimal digits for nanoseconds. The absolute time of the first
// event is in otherData.
//
// Package perfetto writes the same information in a third of the space, with complete stacks and without the limits of
// this format: here a flow can only begin within an open slice, and viewers may reduce thread IDs modulo 1<<32.
package chrome
