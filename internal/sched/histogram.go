package sched

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// Buckets are log-linear: every power of two is divided in subBuckets equal parts, so a bucket is at most 1/16 of its
// lower bound wide and its middle is off by at most 1/32.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	numBuckets = (63 - subBits + 1) * subBuckets
)

// Histogram counts durations. The zero value is empty. It is a value: a copy is a snapshot.
type Histogram struct {
	counts [numBuckets]uint64
	count  uint64
	sum    Nanos
	max    int64
}

// Bucket is a range of durations, Low inclusive and High exclusive, and how many fell into it.
type Bucket struct {
	Low, High time.Duration
	Count     uint64
}

// bucketOf returns the bucket of a non-negative value.
func bucketOf(v int64) int {
	shift := max(bits.Len64(uint64(v))-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bucketLow returns the smallest value of a bucket.
func bucketLow(i int) int64 {
	if i < 2*subBuckets {
		return int64(i)
	}
	if i >= numBuckets {
		return math.MaxInt64
	}
	shift := i>>subBits - 1
	return int64(i&(subBuckets-1)|subBuckets) << shift
}

// Add counts a duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) { h.record(max(int64(d), 0)) }

func (h *Histogram) record(v int64) {
	h.counts[bucketOf(v)]++
	h.count++
	h.sum.add(v)
	h.max = max(h.max, v)
}

// Count returns how many durations there are.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of all durations.
func (h *Histogram) Sum() Nanos { return h.sum }

// Mean returns the average; 0 when there is nothing.
func (h *Histogram) Mean() time.Duration { return h.sum.Per(h.count) }

// Max returns the longest duration: exact, but for a difference (Sub) the end of the highest bucket.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile returns the duration that the given part of all durations, 0 to 1, do not exceed. It is off by at most 1/32,
// a little more than 3 %. It is 0 when there is nothing.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(1)
	if q > 0 {
		rank = max(1, uint64(math.Ceil(min(q, 1)*float64(h.count))))
	}
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			low := bucketLow(i)
			return time.Duration(min(low+(bucketLow(i+1)-low)/2, h.max))
		}
	}
	return time.Duration(h.max)
}

// Buckets yields the buckets that are not empty, the lowest first.
func (h *Histogram) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for i, n := range h.counts {
			if n > 0 && !yield(Bucket{time.Duration(bucketLow(i)), time.Duration(bucketLow(i + 1)), n}) {
				return
			}
		}
	}
}

// Merge adds all durations of another histogram.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
	h.sum = h.sum.Add(o.sum)
	h.max = max(h.max, o.max)
}

// Sub returns what was added since an earlier copy of the same histogram. When the earlier copy has more in some bucket
// it is of another observation, and h is returned whole.
func (h *Histogram) Sub(earlier *Histogram) Histogram {
	d := Histogram{count: h.count - earlier.count, sum: h.sum.Sub(earlier.sum)}
	for i, n := range h.counts {
		if n < earlier.counts[i] {
			return *h
		}
		if d.counts[i] = n - earlier.counts[i]; d.counts[i] > 0 {
			d.max = min(h.max, bucketLow(i+1)-1)
		}
	}
	return d
}
