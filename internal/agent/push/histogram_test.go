package push

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/loupe-go/loupe/sched"
)

// quantile returns a quantile of an exponential histogram: the geometric middle of its bucket.
func quantile(p metricdata.ExponentialHistogramDataPoint[float64], q float64) float64 {
	rank := max(1, uint64(math.Ceil(q*float64(p.Count))))
	seen := p.ZeroCount
	if seen >= rank {
		return 0
	}
	for i, n := range p.PositiveBucket.Counts {
		if seen += n; seen >= rank {
			return math.Exp2((float64(p.PositiveBucket.Offset) + float64(i) + 0.5) / math.Exp2(float64(p.Scale)))
		}
	}
	return math.Inf(1)
}

// TestExponential compares quantiles of exponential histograms with those of the values themselves.
func TestExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name  string
		next  func() int64
		scale int32
	}{
		{"microseconds to seconds", func() int64 { return 1000 + rng.Int64N(1<<rng.IntN(36)) }, 3},
		{"one second", func() int64 { return 1e9 + rng.Int64N(1e6) }, 4},
		{"with zero", func() int64 { return rng.Int64N(1 << rng.IntN(20)) }, 4},
		{"all durations", func() int64 { return rng.Int64N(1 << (1 + rng.IntN(62))) }, 2},
		{"always zero", func() int64 { return 0 }, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h sched.Histogram
			values := make([]int64, 0, 20_000)
			for range cap(values) {
				v := test.next()
				h.Add(time.Duration(v))
				values = append(values, v)
			}
			slices.Sort(values)
			p := exponential(&h, *attribute.EmptySet(), time.Time{}, time.Time{})
			if p.Scale != test.scale || len(p.PositiveBucket.Counts) > maxBuckets {
				t.Errorf("scale %d with %d buckets", p.Scale, len(p.PositiveBucket.Counts))
			}
			count := p.ZeroCount
			for _, n := range p.PositiveBucket.Counts {
				count += n
			}
			highest, _ := p.Max.Value()
			if count != p.Count || p.Count != uint64(len(values)) || p.Sum != h.Sum().Seconds() || highest != time.Duration(values[len(values)-1]).Seconds() {
				t.Errorf("%d in buckets of %d, sum %v, max %v", count, p.Count, p.Sum, highest)
			}
			// Half of a bucket on each side, and 1/32 because of the middle.
			bound := math.Exp2(math.Exp2(-float64(p.Scale))/2) * (1 + 1.0/32)
			for _, q := range []float64{0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
				exact := float64(values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]) / 1e9
				if got := quantile(p, q); got > exact*bound || got < exact/bound {
					t.Errorf("quantile %v: %v, exact %v, bound %v", q, got, exact, bound)
				}
			}
		})
	}
	if p := exponential(&sched.Histogram{}, *attribute.EmptySet(), time.Time{}, time.Time{}); p.Count != 0 || len(p.PositiveBucket.Counts) != 0 {
		t.Errorf("an empty histogram: %+v", p)
	}
}

// TestBucketOf checks both ends of buckets: the upper one belongs to it.
func TestBucketOf(t *testing.T) {
	for _, test := range []struct {
		value float64
		scale int
		want  int32
	}{{1, 0, -1}, {1.0000001, 0, 0}, {2, 0, 0}, {4, 0, 1}, {0.5, 0, -2}, {4, 1, 3}, {1, 4, -1}, {1.0000001, 4, 0}} {
		if got := bucketOf(test.value, test.scale); got != test.want {
			t.Errorf("%v at scale %d: %d, want %d", test.value, test.scale, got, test.want)
		}
	}
}
