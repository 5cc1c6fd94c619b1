//go:build go1.22

package glti

import _ "unsafe" // for linkname

// traceAdvance begins a new generation of the running trace, and returns when the trace reader has received all of the last. The
// runtime permits this linkname, for golang.org/x/exp/trace (runtime/trace.go).
//
//go:linkname traceAdvance runtime.traceAdvance
func traceAdvance(stopTrace bool)
