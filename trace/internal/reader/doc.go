// Package reader converts an execution trace to events of package event.
//
// The central type is [Reader]. It converts a trace of Go 1.22 or later, in the order that package order determines. The
// rest of the package is independent of the format, and package tracev1 also uses it: a [Part] of the events, their
// [Stats], the [Intern] table of stacks and origins, and the meaning of the tracer's texts ([ReasonOf], [RootOrigin]).
package reader
