// Package writer converts events of package event to an execution trace as they arrive. The documentation of package trace
// describes how each kind of event is written.
//
// The central type is [Writer], which implements trace.Writer. A Writer replays the scheduler (goroutines, threads, Ps) as
// readers of the trace do, and adds the transitions without which an event would not fit. It encodes events into one open
// batch per thread, collects strings and stacks in tables, and writes both to the underlying io.Writer, one generation
// after the other.
//
// The states of goroutines are those of the format, not those of package gostate: a GoStatus must name one of the trace's
// states, so every goroutine has one, and each change requires a thread and a P. The rules for traces are in package order.
package writer
