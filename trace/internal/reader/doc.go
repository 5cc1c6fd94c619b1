// Package reader makes events of package event out of an execution trace.
//
// The central type is [Reader], which makes them of a trace of Go 1.22 or later, in the order that package order finds. The
// rest is what the events of all formats have in common, and package tracev1 uses it too: a [Part] of the events, their
// [Stats], the [Intern] of stacks and origins, and what the words of the tracer mean ([ReasonOf], [RootOrigin]).
package reader
