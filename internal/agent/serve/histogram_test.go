package serve

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/sched"
)

// nativeCounts returns the counts of a native histogram by the index of the bucket.
func nativeCounts(h *dto.Histogram) (counts map[int]int64, order []int) {
	counts = map[int]int64{}
	index, count, k := 0, int64(0), 0
	for _, span := range h.PositiveSpan {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count += h.PositiveDelta[k]
			counts[index] = count
			order = append(order, index)
			index++
			k++
		}
	}
	return counts, order
}

// TestHistogram compares classic and native buckets with the exact durations.
func TestHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for round := range 200 {
		var h sched.Histogram
		values := make([]float64, 0, 1000)
		for range rng.IntN(1000) {
			d := time.Duration(rng.Int64N(1 << (1 + rng.IntN(40))))
			if round%3 == 0 { // around the bounds
				d = time.Duration(bounds[rng.IntN(len(bounds))]*1e9) + time.Duration(rng.IntN(3)-1)
			}
			h.Add(d)
			values = append(values, d.Seconds())
		}
		slices.Sort(values)
		got := convert(&metric.Durations{Histogram: &h})
		compareClassic(t, got, values)
		compareNative(t, got, values)
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		if got.GetSampleCount() != uint64(len(values)) || math.Abs(got.GetSampleSum()-sum) > 1e-9*(1+sum) {
			t.Fatalf("count %d and sum %v of %d and %v", got.GetSampleCount(), got.GetSampleSum(), len(values), sum)
		}
	}
}

// compareClassic checks that only durations within 1/32 of a bound are on its wrong side.
func compareClassic(t *testing.T, h *dto.Histogram, values []float64) {
	const off = 1.0 / 32
	below := func(bound float64) uint64 {
		n, _ := slices.BinarySearch(values, math.Nextafter(bound, 1e9))
		return uint64(n)
	}
	for i, b := range h.Bucket {
		low, high := below(bounds[i]*(1-off)), below(bounds[i]*(1+off))
		if got := b.GetCumulativeCount(); b.GetUpperBound() != bounds[i] || got < low || got > high {
			t.Fatalf("%d durations up to %v, want %d to %d", got, bounds[i], low, high)
		}
	}
}

// compareNative checks that each duration is in the bucket whose bounds contain it, with an error of 1/32.
func compareNative(t *testing.T, h *dto.Histogram, values []float64) {
	counts, order := nativeCounts(h)
	i := 0
	for ; i < len(values) && values[i] == 0; i++ {
	}
	if uint64(i) != h.GetZeroCount() {
		t.Fatalf("%d durations are 0, want %d", h.GetZeroCount(), i)
	}
	if !slices.IsSorted(order) || h.GetSchema() != schema {
		t.Fatalf("buckets %v, schema %d", order, h.GetSchema())
	}
	width := math.Exp2(1.0 / (1 << schema))
	for _, index := range order {
		high := math.Exp2(float64(index) / (1 << schema))
		low := high / width
		if counts[index] <= 0 {
			t.Fatalf("%d durations in bucket %d", counts[index], index)
		}
		for range counts[index] {
			v := values[i]
			i++
			if v < low*(1-1.0/31) || v > high*(1+1.0/31) {
				t.Fatalf("%v is in the bucket from %v to %v", v, low, high)
			}
			// What a quantile in this bucket differs at most from the exact value, wherever Prometheus interpolates it.
			if worst := max(high/v, v/low) - 1; worst > 0.13 {
				t.Fatalf("%v is in the bucket from %v to %v: off by %v", v, low, high, worst)
			}
		}
	}
	if i != len(values) {
		t.Fatalf("%d durations in buckets, want %d", i, len(values))
	}
}

func TestExemplars(t *testing.T) {
	var h sched.Histogram
	exemplar := func(seconds float64, at int64, id byte) metric.Exemplar {
		h.Add(time.Duration(seconds * 1e9))
		return metric.Exemplar{Seconds: seconds, At: at, TraceID: [16]byte{15: id}, SpanID: [8]byte{7: id}}
	}
	d := &metric.Durations{Histogram: &h, Exemplars: []metric.Exemplar{
		exemplar(2e-6, 10, 1), exemplar(3e-6, 30, 2), exemplar(4e-6, 20, 3), exemplar(100, 40, 4), exemplar(10, 50, 5),
		{Seconds: 1, At: 1, SpanID: [8]byte{1}}, {Seconds: 1, TraceID: [16]byte{1}, SpanID: [8]byte{1}}, exemplar(0.5, 60, 0),
	}}
	got := convert(d)
	if len(got.Exemplars) != 5 {
		t.Errorf("%d exemplars of the native histogram", len(got.Exemplars))
	}
	var in []float64
	for _, b := range got.Bucket {
		if e := b.Exemplar; e != nil {
			in = append(in, b.GetUpperBound(), e.GetValue())
		}
	}
	if want := []float64{1e-5, 3e-6, 10, 10, math.Inf(1), 100}; !slices.Equal(in, want) {
		t.Errorf("exemplars of classic buckets: %v, want %v", in, want)
	}
	if last := got.Bucket[len(got.Bucket)-1]; last.GetCumulativeCount() != h.Count() {
		t.Errorf("%d in the last bucket of %d", last.GetCumulativeCount(), h.Count())
	}

	g := metric.Group{Identity: metric.Identity{PID: 1}, Points: []metric.Point{{Desc: metric.GCPauses, Durations: d}}}
	body, _ := scrape(t, NewCollector(CollectorOptions{Source: constant(g)}), acceptOpenMetrics)
	want := `# {trace_id="00000000000000000000000000000002",span_id="0000000000000002"} 3e-06 3e-08`
	if !bytes.Contains(body, []byte(want)) {
		t.Errorf("no %s in\n%s", want, body)
	}
}
