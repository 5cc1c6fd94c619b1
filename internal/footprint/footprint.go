// Package footprint limits the resources that a command uses on the machine that it shares with the target.
package footprint

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Collections are rare, since they take time from the program that is observed: the heap grows to five times what is in
// use. But when much is in use, there is at most maxGarbage of garbage, or as much as half of what is in use.
const (
	maxPercent = 400
	minPercent = 50
	maxGarbage = 64 << 20
)

// Limit sets up this process; a command calls it first.
func Limit() {
	// Half of the machine, but one P reads events while another writes what comes of them.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()/2))
	debug.SetGCPercent(maxPercent)
	afterCollection(new(collected), maxPercent)
}

// collected is garbage from the beginning: its finalizer runs after the next collection.
type collected struct{ _ [16]byte }

// afterCollection sets the percentage for the next collection after each one.
func afterCollection(c *collected, percent int) {
	runtime.SetFinalizer(c, func(c *collected) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		if next := percentFor(sample[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		afterCollection(c, percent)
	})
}

// percentFor returns the percentage for a heap of which some bytes are in use.
func percentFor(live uint64) int {
	return int(min(maxPercent, max(minPercent, maxGarbage*100/max(live, 1))))
}
