//go:build amd64 || arm64

package trampoline

// back is where Tail goes.
func back()

var _ = back
