package sched

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreContiguous(t *testing.T) {
	for i := range numBuckets {
		low, next := bucketLow(i), bucketLow(i+1)
		if next <= low {
			t.Fatalf("bucket %d: %d to %d", i, low, next)
		}
		if bucketOf(low) != i || bucketOf(next-1) != i {
			t.Fatalf("bucket %d: %d is in %d, %d in %d", i, low, bucketOf(low), next-1, bucketOf(next-1))
		}
		if low >= subBuckets && (next-low)*subBuckets > low {
			t.Fatalf("bucket %d: %d to %d is too wide", i, low, next)
		}
	}
	if i := bucketOf(math.MaxInt64); i != numBuckets-1 {
		t.Errorf("the largest value is in bucket %d of %d", i, numBuckets)
	}
}

func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h, early Histogram
	var values []time.Duration
	for i := range 20_000 {
		d := time.Duration(rng.Int64N(1 << rng.IntN(36)))
		if i == 5000 {
			early = h
			values = nil
		}
		h.Add(d)
		values = append(values, d)
	}
	d := h.Sub(&early)
	slices.Sort(values)
	if d.Count() != 15_000 || h.Count() != 20_000 {
		t.Fatalf("%d and %d values", d.Count(), h.Count())
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := values[max(int(math.Ceil(q*15_000))-1, 0)]
		got := d.Quantile(q)
		if off := math.Abs(float64(got-exact)) / max(float64(exact), 1); off > 1.0/32+1e-9 {
			t.Errorf("quantile %v: %d, exact %d: off by %.1f %%", q, got, exact, 100*off)
		}
	}
	var sum time.Duration
	for _, v := range values {
		sum += v
	}
	if d.Sum().Duration() != sum || d.Mean() != sum/15_000 || d.Max() < values[len(values)-1] {
		t.Errorf("sum %d of %d, mean %d, max %d of %d", d.Sum().Duration(), sum, d.Mean(), d.Max(), values[len(values)-1])
	}
	n := uint64(0)
	for b := range d.Buckets() {
		n += b.Count
	}
	if n != d.Count() {
		t.Errorf("%d in the buckets of %d", n, d.Count())
	}
	if other := early.Sub(&h); other != early {
		t.Errorf("less a later copy: %d values, want all %d", other.Count(), early.Count())
	}
	var empty Histogram
	if empty.Quantile(0.5) != 0 || empty.Mean() != 0 {
		t.Error("an empty histogram has a median")
	}
}

// TestNanos compares the results of Nanos with those of math/big.
func TestNanos(t *testing.T) {
	toBig := func(n Nanos) *big.Int {
		b := new(big.Int).SetUint64(n.hi)
		return b.Add(b.Lsh(b, 64), new(big.Int).SetUint64(n.lo))
	}
	rng := rand.New(rand.NewPCG(2, 2))
	var p pool
	truth, now := new(big.Int), int64(math.MaxInt64)
	for range 1000 {
		at := rng.Int64()
		p.enter(at)
		truth.Add(truth, big.NewInt(now-at))
	}
	if got := toBig(p.open(now)); got.Cmp(truth) != 0 {
		t.Errorf("open times of a pool: %v, want %v", got, truth)
	}
	if d := p.open(now).Duration(); d != math.MaxInt64 {
		t.Errorf("as a duration %d, want the largest", d)
	}
	seconds, _ := new(big.Float).Quo(new(big.Float).SetInt(truth), big.NewFloat(1e9)).Float64()
	if got := p.open(now).Seconds(); math.Abs(got/seconds-1) > 1e-12 {
		t.Errorf("%v s, want %v", got, seconds)
	}
	a, b := Nanos{1, 5}, Nanos{0, math.MaxUint64}
	if a.Sub(b) != (Nanos{0, 6}) || b.Sub(a) != (Nanos{}) || b.Add(NanosOf(6)) != a || a.Cmp(b) != 1 || b.Cmp(a) != -1 || a.Cmp(a) != 0 {
		t.Errorf("%v less %v is %v", a, b, a.Sub(b))
	}
	if a.Per(2) != math.MaxInt64 || NanosOf(10).Per(4) != 2 || a.Per(0) != 0 || NanosOf(-3) != (Nanos{}) || a.Per(1<<40) != 1<<24 {
		t.Errorf("averages %v %v %v", a.Per(2), NanosOf(10).Per(4), a.Per(1<<40))
	}
}

// TestHistogramAddN adds durations one by one and together.
func TestHistogramAddN(t *testing.T) {
	var one, many Histogram
	for _, d := range []time.Duration{0, 17, time.Millisecond, time.Hour, -1} {
		for range 3 {
			one.Add(d)
		}
		many.AddN(d, 3)
		many.AddN(d, 0)
	}
	if one != many {
		t.Errorf("%+v, want %+v", many, one)
	}
}
