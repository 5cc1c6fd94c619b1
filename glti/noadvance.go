//go:build !go1.22

package glti

// traceAdvance is for traces that this package reads.
func traceAdvance(bool) {}
