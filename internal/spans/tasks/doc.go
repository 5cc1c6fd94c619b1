// Package tasks makes events of spans, so that recordings show requests as tasks and regions of runtime/trace.
//
// The central types are [Recorder], which makes the events, and [Names], which holds them back until the names are known.
//
// # Events
//
// A span is a task, whose parent is the task of the parent span. The messages of the task are the trace ID and the span ID, and at
// the end the status and what it has allocated, if that is counted. The task begins and ends when the span does.
//
// A goroutine is in a region while it is in a span, until the span ends or goes on elsewhere. Regions of a goroutine are nested, as
// readers of traces require: if a region ends while a later one lasts, that one ends, too, and begins again. A region whose span
// another goroutine ends is over when its goroutine runs again. Spans that the program makes itself are tasks without regions.
package tasks
