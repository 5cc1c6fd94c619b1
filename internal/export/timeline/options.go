package timeline

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// Options say what the events leave out and what is written. The zero value fits an observation with default options.
type Options struct {
	// Process is the name of the process; empty when it is not known.
	Process string

	// Kinds are the kinds that are observed; zero means event.KindsDefault.
	Kinds event.Kinds

	// MinBlock is not zero when only waits of that length are observed: see loupe.Options.MinBlock. Starts and stops are
	// missing then, and only waits are drawn.
	MinBlock time.Duration

	// Threads adds a track for each thread, with a slice for each goroutine that ran on it.
	Threads bool

	// CounterInterval is the shortest time between two values of a counter; changes in between are left out, the last one
	// of a burst is not. 0 means DefaultCounterInterval. Negative means that all changes are written.
	CounterInterval time.Duration

	// Frames is how many of a stack's innermost frames are written. 0 means what fits the format. Negative means none.
	Frames int
}

// ProcessName returns what the process is called, for one without a name too.
func (o *Options) ProcessName() string {
	if o.Process == "" {
		return "Go program"
	}
	return o.Process
}

// DefaultCounterInterval is the shortest time between two values of a counter unless Options say otherwise.
const DefaultCounterInterval = time.Millisecond

// Stats count what was read and written.
type Stats struct {
	Events  uint64 // read
	Ignored uint64 // of them, those without effect: of an unknown kind, without a goroutine, or an end without a beginning
	Losses  uint64 // Lost events
	Lost    uint64 // events that they say are missing

	Tracks, Slices, Instants, Flows, Counters uint64 // written; of counters the values

	Cut       uint64 // slices whose end was not seen
	Uncertain uint64 // slices during which events were lost
	Unknown   uint64 // slices "unknown"

	Bytes uint64 // written to the output so far
}
