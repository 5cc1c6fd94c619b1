// Package event defines the types that all parts of Loupe share: events and their counts, goroutine snapshots, stack
// frames, the states of goroutines, and the resource usage of a process.
//
// Every source (such as a live process or an execution trace) produces these types, and every consumer reads nothing else. A
// tool that works with one source therefore works with all of them. The names are those of the Go runtime and its
// execution tracer. The package imports no other package of Loupe.
package event
