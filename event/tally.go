package event

import "time"

// A Tally is the goroutines that have the same origin, state and wait reason.
type Tally struct {
	State  State
	Reason string // the runtime's wait reason; set for StateWaiting and StateLeaked only
	Origin Origin

	// Oldest is the longest time for which one of them has been blocked, as far as it is known: the runtime records when a wait began at
	// the first garbage collection that finds the goroutine blocked.
	Oldest time.Duration

	Members []Member // in no particular order
}

// A Member is a goroutine of a [Tally].
type Member struct {
	ID    uint64
	Stops uint8 // number of times that it has stopped running, modulo 256; 0 before Go 1.17
}
