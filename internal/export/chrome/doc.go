// Package chrome writes events in the Trace Event Format, the JSON that chrome://tracing, ui.perfetto.dev and other viewers
// read.
//
// The central type is Writer. What is drawn is decided by package timeline; here it gets its encoding. Goroutines are the
// threads of the process, with their ID as the thread's. What is no goroutine's is written as asynchronous events, which
// viewers draw beside the threads: garbage collections, stops of the world, lost events, tasks and regions. With
// Options.Threads a second process, whose ID is the first one's and 1<<22 (more than Linux gives to a process), has the
// kernel's threads.
//
// The document is an object with the array traceEvents. It is valid JSON after Close, whenever that comes. Times are
// microseconds since the first event, with three digits for nanoseconds; otherData has the first event's own time.
//
// Package perfetto writes the same in a third of the size, with whole stacks and without the limits of this format: here a
// flow begins only where a slice is open, and viewers may take thread IDs modulo 1<<32.
package chrome
