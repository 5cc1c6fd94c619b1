package raw

// A Spec describes the events of one type: how they are called and what they consist of.
type Spec struct {
	// Name is the event's name in the text format. It is empty for types that a version does not have.
	Name string
	// Args are the names of the event's arguments, in their order on the wire.
	Args []string
	// Timed is set for events with a time of their own: their first argument, "dt", is the time since the previous event
	// of the same batch, in ticks.
	Timed bool
	// HasData is set for events that end with bytes of any content.
	HasData bool
	// IsStack is set for events that end with stack frames. Their last argument is the number of frames.
	IsStack bool
	// Experiment is the experiment that the event belongs to, or NoExperiment.
	Experiment uint
}

// Experiments of the Go runtime that add events to a trace.
const (
	NoExperiment uint = 0
	AllocFree    uint = 1 // GODEBUG=traceallocfree=1, from Go 1.23
)
