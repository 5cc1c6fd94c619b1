package push

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/sched"
)

// An exponential histogram of scale s has 2^s buckets for each power of two. Its size in a request is bounded by maxBuckets: a histogram
// whose durations have a wider range has a lower scale. Scale 4, with 16 buckets as in a sched.Histogram, is enough for a range of
// 1 to 2^20, scale 3 for all durations up to 18 minutes with a resolution of a nanosecond.
const (
	maxScale   = 4
	maxBuckets = 320
)

// exponential returns a histogram of durations in seconds. The middle of a bucket of h decides in which exponential bucket its durations
// are counted, and differs from them by at most 1/32. So a quantile that is computed from the result is off by at most that and the
// width of a bucket: a factor of 2^(1/16) at scale 4, and 2^(1/8) at scale 3.
func exponential(h *sched.Histogram, attrs attribute.Set, start, at time.Time) metricdata.ExponentialHistogramDataPoint[float64] {
	p := metricdata.ExponentialHistogramDataPoint[float64]{
		Attributes: attrs, StartTime: start, Time: at, Count: h.Count(), Sum: h.Sum().Seconds(), Scale: maxScale,
	}
	if h.Count() > 0 {
		p.Max = metricdata.NewExtrema(h.Max().Seconds())
	}
	first, last, any := int32(0), int32(0), false
	for b := range h.Buckets() {
		if middle, ok := middleOf(b); ok {
			last = bucketOf(middle, maxScale)
			if !any {
				first, any = last, true
			}
		}
	}
	if !any {
		p.ZeroCount = h.Count()
		return p
	}
	shift := 0
	for last>>shift-first>>shift >= maxBuckets {
		shift++
	}
	p.Scale -= int32(shift)
	p.PositiveBucket.Offset = first >> shift
	p.PositiveBucket.Counts = make([]uint64, last>>shift-first>>shift+1)
	for b := range h.Buckets() {
		if middle, ok := middleOf(b); ok {
			p.PositiveBucket.Counts[bucketOf(middle, maxScale)>>shift-first>>shift] += b.Count
		} else {
			p.ZeroCount += b.Count
		}
	}
	return p
}

// middleOf returns the middle of the durations in a bucket, in seconds. ok is false for the bucket of zero.
func middleOf(b sched.Bucket) (seconds float64, ok bool) {
	low, high := float64(b.Low), float64(b.High-1)
	return (low + high) / 2 / 1e9, high > 0
}

// bucketOf returns the index of the bucket of a value. Bucket i has the values above 2^(i/2^scale), up to 2^((i+1)/2^scale).
func bucketOf(value float64, scale int) int32 {
	return int32(math.Ceil(math.Log2(value)*float64(int(1)<<scale))) - 1
}

// exemplars returns the exemplars of a histogram. Those that belong to no span are left out.
func exemplars(list []metric.Exemplar) []metricdata.Exemplar[float64] {
	var out []metricdata.Exemplar[float64]
	for i := range list {
		e := &list[i]
		if e.TraceID != [16]byte{} && e.SpanID != [8]byte{} {
			out = append(out, metricdata.Exemplar[float64]{Time: time.Unix(0, e.At), Value: e.Seconds, TraceID: e.TraceID[:], SpanID: e.SpanID[:]})
		}
	}
	return out
}
