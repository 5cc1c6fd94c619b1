// Package footprint limits the resources that this process uses on the machine that it shares with the targets.
//
// The limits apply to the whole process. Therefore only main of a command sets them, once. A library does not.
package footprint

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Limits are limits on the processors and the garbage of this process.
type Limits struct {
	Procs int // GOMAXPROCS

	// The heap grows by at most MaxPercent of what is in use before it is collected. When much is in use, it grows by
	// MaxGarbage bytes, but by MinPercent at least.
	MaxPercent, MinPercent int
	MaxGarbage             uint64
}

// Command returns the limits of a command that observes one target. Collections are rare, since they take time from the
// program that is observed.
func Command() Limits {
	return Limits{
		Procs:      max(2, runtime.NumCPU()/2), // half of the machine, but one P reads events while another writes what comes of them
		MaxPercent: 150, MinPercent: 50, MaxGarbage: 64 << 20,
	}
}

// Set limits this process. It is called once.
func (l Limits) Set() {
	runtime.GOMAXPROCS(l.Procs)
	debug.SetGCPercent(l.MaxPercent)
	l.afterCollection(new(collected), l.MaxPercent)
}

// collected is garbage from the beginning: its finalizer runs after the next collection.
type collected struct{ _ [16]byte }

// afterCollection sets the percentage for the next collection after each one.
func (l Limits) afterCollection(c *collected, percent int) {
	runtime.SetFinalizer(c, func(c *collected) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		if next := l.percentFor(sample[0].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		l.afterCollection(c, percent)
	})
}

// percentFor returns the percentage for a heap of which some bytes are in use.
func (l Limits) percentFor(live uint64) int {
	return int(min(uint64(l.MaxPercent), max(uint64(l.MinPercent), l.MaxGarbage*100/max(live, 1))))
}
