package raw

// A Spec describes an event type: its name and the parts of its events.
type Spec struct {
	// Name is the name of the type in the text format. It is empty if the version does not have the type.
	Name string
	// Args contains the names of the arguments, in their order on the wire.
	Args []string
	// Timed reports whether the events have a time. If so, their first argument, "dt", is the time in ticks since the
	// previous event of the same batch.
	Timed bool
	// HasData reports whether the events end with data, a sequence of arbitrary bytes.
	HasData bool
	// IsStack reports whether the events end with stack frames. If so, their last argument is the number of frames.
	IsStack bool
	// Experiment is the experiment to which the type belongs, or NoExperiment.
	Experiment uint
}

// Experiments of the Go runtime that add events to a trace.
const (
	NoExperiment uint = 0
	AllocFree    uint = 1 // GODEBUG=traceallocfree=1, Go 1.23 and later
)
