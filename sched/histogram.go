package sched

import (
	"iter"
	"math"
	"math/bits"
	"time"
)

// Buckets are log-linear: every power of two is divided into subBuckets equal parts. The width of a bucket is at most 1/16
// of its lower bound, so the middle of a bucket differs from its values by at most 1/32.
const (
	subBits    = 4
	subBuckets = 1 << subBits
	numBuckets = (63 - subBits + 1) * subBuckets
)

// A Histogram counts durations in buckets, whose width is at most 1/16 of their lower bound. The zero value is empty and ready
// to use. A copy of a Histogram is independent of the original.
type Histogram struct {
	counts [numBuckets]uint64
	count  uint64
	sum    Nanos
	max    int64
}

// A Bucket is a range of durations in a [Histogram].
type Bucket struct {
	Low   time.Duration // lower bound, inclusive
	High  time.Duration // upper bound, exclusive
	Count uint64        // number of durations in the range
}

// bucketOf returns the index of the bucket that contains v, which must not be negative.
func bucketOf(v int64) int {
	shift := max(bits.Len64(uint64(v))-subBits-1, 0)
	return shift<<subBits + int(v>>shift)
}

// bucketLow returns the smallest value of bucket i. It returns math.MaxInt64 if there is no such bucket.
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

// Add adds a duration. A negative duration counts as 0.
func (h *Histogram) Add(d time.Duration) { h.record(max(int64(d), 0)) }

// AddN adds n durations of the same length.
func (h *Histogram) AddN(d time.Duration, n uint64) {
	if n == 0 {
		return
	}
	v := max(int64(d), 0)
	h.counts[bucketOf(v)] += n
	h.count += n
	hi, lo := bits.Mul64(uint64(v), n)
	h.sum = h.sum.Add(Nanos{hi, lo})
	h.max = max(h.max, v)
}

func (h *Histogram) record(v int64) {
	h.counts[bucketOf(v)]++
	h.count++
	h.sum.add(v)
	h.max = max(h.max, v)
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of all durations.
func (h *Histogram) Sum() Nanos { return h.sum }

// Mean returns the average duration, or 0 if the histogram is empty.
func (h *Histogram) Mean() time.Duration { return h.sum.Per(h.count) }

// Max returns the longest duration, or 0 if the histogram is empty. It is exact, except in a result of [Histogram.Sub], where
// it is an upper bound: the end of the highest bucket.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile returns the q-quantile of the durations, for q from 0 to 1: the 0.99-quantile is the 99th percentile. Values of q
// outside of this range count as 0 or 1. The result differs from the exact value by at most 1/32, which is 3.1 %. It is 0 if
// the histogram is empty.
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

// Buckets returns an iterator over the buckets that are not empty, in ascending order.
func (h *Histogram) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for i, n := range h.counts {
			if n > 0 && !yield(Bucket{time.Duration(bucketLow(i)), time.Duration(bucketLow(i + 1)), n}) {
				return
			}
		}
	}
}

// Merge adds all durations of o to h.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
	h.sum = h.sum.Add(o.sum)
	h.max = max(h.max, o.max)
}

// Sub returns the durations that were added to h since earlier, which must be an earlier copy of h. If a bucket of earlier has
// more durations than in h, earlier is not a copy of h, and Sub returns a copy of h.
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
