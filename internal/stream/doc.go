// Package stream derives what commands show from the events of a live program: the events that match the user's filter,
// the duration of the wait that an event ends, the number of goroutines created and ended, and profiles for package
// pprof.
//
// The central types are [Transitions], which stores the last change of each goroutine and nothing else, and [Profile],
// which is computed by package sched. The only input is events, which can come from any source. A [Merger] merges samples into a
// stream.
package stream
