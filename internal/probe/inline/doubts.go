package inline

import (
	"math/bits"
	"time"

	"github.com/loupe-go/loupe/event"
)

// doubts is a histogram of the error bounds of event times, with buckets an eighth wide.
type doubts struct {
	counts [64 << doubtBits]uint64
	total  uint64
	most   uint64
}

const doubtBits = 3

func (d *doubts) add(nanos uint64) {
	d.counts[doubtStep(nanos)]++
	d.total++
	d.most = max(d.most, nanos)
}

// doubtStep returns the bucket of a value.
func doubtStep(nanos uint64) int {
	shift := max(bits.Len64(nanos)-doubtBits-1, 0)
	return shift<<doubtBits + int(nanos>>shift)
}

// doubtEnd returns the upper end of a bucket.
func doubtEnd(step int) uint64 {
	shift := max(step>>doubtBits-1, 0)
	return (uint64(step-shift<<doubtBits) + 1) << shift
}

// bound returns the bounds for 99 % of the events and for all.
func (d *doubts) bound() event.TimeError {
	const part = 100 // one event in this many may exceed P99
	above := d.total / part
	e := event.TimeError{P99: time.Duration(d.most), Max: time.Duration(d.most)}
	for step := len(d.counts) - 1; step >= 0; step-- {
		if n := d.counts[step]; n > above {
			e.P99 = min(e.P99, time.Duration(doubtEnd(step)))
			break
		} else {
			above -= n
		}
	}
	return e
}
