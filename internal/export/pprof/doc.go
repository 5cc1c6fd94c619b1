// Package pprof writes profiles that `go tool pprof` reads.
//
// Its central type is Builder. It takes stacks with values, from whatever source, and knows nothing of where they come
// from. Stacks arrive symbolised, so that a profile of a stripped program on another machine reads like any other.
package pprof
