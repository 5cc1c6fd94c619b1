// Package pprof writes profiles that `go tool pprof` can read.
//
// The central type is [Builder]. It accepts stacks with values from any source. Stacks must already be symbolized, so the
// profile of a stripped program from another machine can be read like any other profile.
package pprof
