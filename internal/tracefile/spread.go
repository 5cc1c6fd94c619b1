package tracefile

import (
	"math"
	"slices"
	"time"

	"github.com/loupe-go/loupe/sched"
)

// A Spread is how a length of time is spread over goroutines. The zero value is empty. Few lengths are kept one by one, and
// many in a sched.Histogram, so the memory is bounded.
type Spread struct {
	few  []int64
	many *sched.Histogram // nil as long as there are few

	count    uint64
	sum      sched.Nanos
	min, max int64
}

// maxFew is how many lengths are kept one by one.
const maxFew = 32

// Add adds a length.
func (s *Spread) Add(d time.Duration) {
	if s.count == 0 || int64(d) < s.min {
		s.min = int64(d)
	}
	s.max = max(s.max, int64(d))
	s.count++
	s.sum = s.sum.Add(sched.NanosOf(d))
	if s.many != nil {
		s.many.Add(d)
		return
	}
	if s.few = append(s.few, int64(d)); len(s.few) > maxFew {
		s.toMany()
	}
}

func (s *Spread) toMany() {
	s.many = new(sched.Histogram)
	for _, d := range s.few {
		s.many.Add(time.Duration(d))
	}
	s.few = nil
}

// merge adds the lengths of another spread.
func (s *Spread) merge(o *Spread) {
	if o.many == nil {
		for _, d := range o.few {
			s.Add(time.Duration(d))
		}
		return
	}
	if s.many == nil {
		s.toMany()
	}
	if s.count == 0 || o.min < s.min {
		s.min = o.min
	}
	s.max = max(s.max, o.max)
	s.count += o.count
	s.sum = s.sum.Add(o.sum)
	s.many.Merge(o.many)
}

// Count returns how many lengths there are.
func (s *Spread) Count() uint64 { return s.count }

// Total returns the sum of all lengths.
func (s *Spread) Total() sched.Nanos { return s.sum }

// Min, Mean and Max return the shortest, the average and the longest length; 0 when there is none.
func (s *Spread) Min() time.Duration  { return time.Duration(s.min) }
func (s *Spread) Mean() time.Duration { return s.sum.Per(s.count) }
func (s *Spread) Max() time.Duration  { return time.Duration(s.max) }

// Quantile returns the length that the given part of all, 0 to 1, do not exceed: exact for few lengths, off by at most
// 1/32 for many. It is 0 when there is none.
func (s *Spread) Quantile(q float64) time.Duration {
	switch {
	case s.count == 0:
		return 0
	case s.many != nil:
		return min(max(s.many.Quantile(q), time.Duration(s.min)), time.Duration(s.max))
	}
	sorted := slices.Sorted(slices.Values(s.few))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return time.Duration(sorted[max(rank, 1)-1])
}
