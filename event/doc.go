// Package event defines the types that all parts of Loupe share: events, stack frames, and the states of goroutines.
//
// Every source of events (such as a live process or an execution trace) produces these types, and every consumer reads
// nothing else. A tool that works with one source therefore works with all of them. The names are those of the Go
// runtime and its execution tracer. The package imports no other package of Loupe.
package event
