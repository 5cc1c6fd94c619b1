package observe

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/glti/observe/wire"
)

// maxHeld is the maximum number of records that wait for earlier ones.
const maxHeld = 1 << 20

// slack is how much later than a time for which the agent has sent everything a record may arrive, in nanoseconds: a thread takes its time
// before it writes the record.
const slack = 1_000_000

// order puts records in the order of their times. It holds back a record until the agent has sent everything from before, and one round of
// the agent more, because a thread that did not run writes its record late.
type order struct {
	held    []wire.Record
	until   int64 // the agent has sent everything up to then
	earlier int64 // until, one message before
	passed  int64 // time of the last record that was passed on
	late    uint64
}

// add adds the records of a message.
func (o *order) add(m *wire.Events) {
	o.held = append(o.held, m.Records...)
	if m.Until > o.until {
		o.earlier, o.until = o.until, m.Until
	}
}

// horizon is the time up to which no record is expected any more.
func (o *order) horizon() int64 { return o.earlier - slack }

// take returns the records up to a time, in order. A record that is earlier than one that has been passed on is late, and gets its time.
func (o *order) take(to int64) []wire.Record {
	slices.SortStableFunc(o.held, func(a, b wire.Record) int { return cmp.Compare(a.Time, b.Time) })
	n := len(o.held)
	if n <= maxHeld {
		n, _ = slices.BinarySearchFunc(o.held, to, func(r wire.Record, to int64) int {
			if r.Time > to {
				return 1
			}
			return -1
		})
	}
	ready := slices.Clone(o.held[:n])
	o.held = append(o.held[:0], o.held[n:]...)
	for i := range ready {
		if ready[i].Time < o.passed {
			ready[i].Time = o.passed
			o.late++
		}
		o.passed = ready[i].Time
	}
	return ready
}
