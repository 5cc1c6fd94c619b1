package reader

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Part is some events, what comes after them if it is no event, and the counts up to there.
type Part struct {
	Events []event.Event
	Err    error
	Stats  Stats
}

const (
	// PartSize is how many events are made at once. They stay in the processor's cache.
	PartSize = 256
	// partRoom is how many events a source may add for one of the trace.
	partRoom = 4
)

// Stats counts the events of a trace. Package trace has the same struct for its users, and documents the fields there.
type Stats struct {
	Version     raw.Version
	Generations uint64
	Events      uint64
	Syncs       uint64
	Statuses    uint64
	Procs       uint64
	Sweeps      uint64
	MarkAssists uint64
	GCActive    uint64
	MaxProcs    uint64
	Labels      uint64
	Experiments uint64
}
