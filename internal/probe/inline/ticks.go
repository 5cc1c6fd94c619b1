//go:build amd64 || arm64

package inline

// ticks reads the counter that probes take their times from, neither before what precedes it nor after what follows.
func ticks() uint64
