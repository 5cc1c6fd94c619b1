package event

import (
	"math"
	"math/bits"
	"time"
)

// Stats holds the event counts of a source of events.
type Stats struct {
	Events uint64          // events that the source has yielded, not counting Lost and Resample, which are only marks
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

	// Created and Ended are the numbers of goroutines that were created and that ended since the session started. They include
	// goroutines that are not sampled, and those whose events were lost because the buffer was full. They do not include the
	// goroutines that other filters exclude. They are 0 if GoCreate or GoDestroy is not observed. If the process ends, goroutines that
	// are alive have not ended.
	Created, Ended uint64

	// Hits is the number of times that the process ran into a probe, whether an event was reported or not.
	Hits uint64

	// BufferUsed is the part of the buffer that is in use now, from 0 to 1. Events are lost while it is 1.
	BufferUsed float64

	// Delays is how long events took from their time until they were yielded, of one in 64 events.
	Delays Delays
}

// Delays is a histogram of durations. Its buckets are 1 µs wide up to 8 µs, and at most a quarter as wide as what they count above.
type Delays struct {
	// Buckets are the numbers of durations. [DelayBounds] has the bounds of each. The last bucket has all longer ones, too.
	Buckets [112]uint64
	Sum     time.Duration // of all durations
}

// Add adds a duration. A negative one counts as 0.
func (d *Delays) Add(delay time.Duration) {
	delay = max(delay, 0)
	us := uint64(delay / time.Microsecond)
	i := us
	if octave := bits.Len64(us); octave > 3 { // the bits after the first two select a quarter
		i = uint64(octave-3)*4 + us>>(octave-3)
	}
	d.Buckets[min(i, uint64(len(d.Buckets)-1))]++
	d.Sum += delay
}

// DelayBounds returns the bounds of the durations that are counted in a bucket of [Delays]: low is included, high is not.
func DelayBounds(bucket int) (low, high time.Duration) {
	if bucket < 8 {
		return time.Duration(bucket) * time.Microsecond, time.Duration(bucket+1) * time.Microsecond
	}
	unit := time.Microsecond << (bucket/4 - 1)
	low = time.Duration(4+bucket%4) * unit
	return low, low + unit
}

// Count returns the number of durations.
func (d *Delays) Count() (n uint64) {
	for _, b := range d.Buckets {
		n += b
	}
	return n
}

// Quantile returns an upper bound of a quantile, at most 5/4 of its value if that is 4 µs or more. q is from 0 to 1. It is 0 without
// durations.
func (d *Delays) Quantile(q float64) time.Duration {
	rank, sum := uint64(math.Ceil(q*float64(d.Count()))), uint64(0)
	for i, b := range d.Buckets {
		if sum += b; sum > 0 && sum >= rank {
			_, high := DelayBounds(i)
			return high
		}
	}
	return 0
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
