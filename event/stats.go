package event

import "time"

// Stats holds the event counts of a source of events.
type Stats struct {
	Events uint64          // events that the source has yielded, not counting Lost, which only marks a gap
	Lost   uint64          // events that happened but could not be delivered
	Kinds  map[Kind]Counts // counts by kind; kinds without events are absent

	// Err is not nil if the counts are incomplete: either they could not be read, in which case Lost and Kinds have
	// the counts that were read last, or some records could not be decoded.
	Err error

	// Unreadable is the part of Lost for which the target's memory could not be read. The rest was lost because the
	// buffer was full.
	Unreadable uint64

	// TimeError is the error bound of event times from a coarse clock (loupe.ClockCoarse). It is zero with other clocks.
	// Times are accurate to the interval between two samples of the reader: 0.5 to 2 ms, or longer if this process is not
	// scheduled.
	TimeError TimeError
}

// TimeError is an upper bound on the error of event times.
type TimeError struct {
	P99, Max time.Duration // the bound for 99% of the events, and for all of them
}

// Counts holds the counts of one kind of event. Once all events have been read from a source that has ended, Produced
// equals Received plus Lost.
type Counts struct {
	Produced uint64 // events for which a probe fired and the filters matched
	Received uint64 // events read from the buffer
	Lost     uint64 // events lost because the buffer was full or the target's memory could not be read

	Unreadable uint64 // part of Lost: the target's memory could not be read
}
