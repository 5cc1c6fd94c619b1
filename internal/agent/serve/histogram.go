package serve

import (
	"encoding/hex"
	"math"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

// bounds are the upper bounds of classic buckets, in seconds. They are few, because each is a series of each histogram: quantiles come
// from native histograms. They include what alerts and objectives usually have as thresholds.
var bounds = []float64{1e-6, 1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 1e-1, 1, 10}

// schema is the resolution of native histograms: a power of two has 2^schema buckets, so one is 9 % wide. The buckets of
// [sched.Histogram] are 3 to 6 % wide. With a finer schema, some native buckets would stay empty.
const schema = 3

// zeroThreshold is the width of the bucket for 0. It is the default of Prometheus' client library, since histograms with different
// thresholds lose precision when Prometheus adds them.
const zeroThreshold = 0x1p-128

// convert returns durations as a classic and a native histogram in one. A bucket of durations counts where its middle is, which differs
// from the durations in it by at most 1/32.
func convert(d *metric.Durations) *dto.Histogram {
	classic := make([]uint64, len(bounds))
	const usual = 64 // native buckets; more are rare
	native := nativeBuckets{index: math.MinInt, deltas: make([]int64, 0, usual)}
	var zero, seen uint64
	at := 0 // the first classic bucket that can still contain durations
	for b := range d.Buckets() {
		if b.High == 1 {
			zero = b.Count
			seen += b.Count
			continue
		}
		middle := (float64(b.Low) + float64(b.High-1)) / 2 / float64(time.Second)
		for ; at < len(bounds) && middle > bounds[at]; at++ {
			classic[at] = seen
		}
		seen += b.Count
		native.add(int(math.Ceil(math.Log2(middle)*(1<<schema))), b.Count)
	}
	for ; at < len(bounds); at++ {
		classic[at] = seen
	}
	native.flush()
	h := &dto.Histogram{
		SampleCount: new(d.Count()), SampleSum: new(d.Sum().Seconds()), Bucket: make([]*dto.Bucket, len(bounds)),
		Schema: new(int32(schema)), ZeroThreshold: new(zeroThreshold), ZeroCount: &zero,
		PositiveSpan: native.spans, PositiveDelta: native.deltas,
	}
	buckets := make([]dto.Bucket, len(bounds))
	for i := range bounds {
		buckets[i].UpperBound, buckets[i].CumulativeCount = &bounds[i], &classic[i]
		h.Bucket[i] = &buckets[i]
	}
	for i := range d.Exemplars {
		addExemplar(h, &d.Exemplars[i])
	}
	return h
}

// nativeBuckets makes the buckets of a native histogram: spans of consecutive buckets, and the difference of each count from the one
// before.
type nativeBuckets struct {
	spans  []*dto.BucketSpan
	deltas []int64

	index int    // of the bucket that is being filled
	count uint64 // in it
	last  int    // index of the last complete bucket
	prior uint64 // its count
}

// add adds durations to a bucket. Indices do not decrease.
func (n *nativeBuckets) add(index int, count uint64) {
	if index != n.index {
		n.flush()
		n.index = index
	}
	n.count += count
}

// flush completes the bucket that is being filled.
func (n *nativeBuckets) flush() {
	if n.count == 0 {
		return
	}
	if k := len(n.spans); k > 0 && n.last+1 == n.index {
		*n.spans[k-1].Length++
	} else {
		offset := n.index // of the first span from 0, of others from the end of the span before
		if k > 0 {
			offset = n.index - n.last - 1
		}
		n.spans = append(n.spans, &dto.BucketSpan{Offset: new(int32(offset)), Length: new(uint32(1))})
	}
	n.deltas = append(n.deltas, int64(n.count-n.prior))
	n.last, n.prior, n.count = n.index, n.count, 0
}

// addExemplar adds an exemplar to the classic bucket that it belongs to, and to the native histogram.
func addExemplar(h *dto.Histogram, e *metric.Exemplar) {
	if e.TraceID == [16]byte{} || e.SpanID == [8]byte{} || e.At <= 0 || !(e.Seconds >= 0) {
		return
	}
	x := &dto.Exemplar{
		Label: []*dto.LabelPair{
			{Name: new("trace_id"), Value: new(hex.EncodeToString(e.TraceID[:]))},
			{Name: new("span_id"), Value: new(hex.EncodeToString(e.SpanID[:]))},
		},
		Value: &e.Seconds, Timestamp: timestamppb.New(time.Unix(0, e.At)),
	}
	h.Exemplars = append(h.Exemplars, x)
	i, _ := slices.BinarySearchFunc(h.Bucket, e.Seconds, func(b *dto.Bucket, v float64) int {
		if b.GetUpperBound() < v {
			return -1
		}
		return 1
	})
	if i == len(h.Bucket) {
		// Only the bucket without a bound can be absent.
		h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: new(math.Inf(1)), CumulativeCount: h.SampleCount})
	}
	if old := h.Bucket[i].Exemplar; old == nil || old.Timestamp.AsTime().Before(x.Timestamp.AsTime()) {
		h.Bucket[i].Exemplar = x
	}
}
