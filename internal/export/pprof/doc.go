// Package pprof writes profiles that `go tool pprof` can read, and reads and compares them.
//
// The central type is [Builder]. It accepts stacks with values from any source. Stacks must already be symbolized, so the
// profile of a stripped program from another machine can be read like any other profile. [Goroutines] and [Wall] make profiles of
// snapshots. [ReadFile] reads a file that is not trusted, and [Difference] subtracts one profile from another.
package pprof
