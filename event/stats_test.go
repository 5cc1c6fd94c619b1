package event

import (
	"testing"
	"time"
)

func TestDelays(t *testing.T) {
	var d Delays
	if d.Count() != 0 || d.Quantile(0.5) != 0 {
		t.Errorf("%d durations, median %v", d.Count(), d.Quantile(0.5))
	}
	for i, delay := range []time.Duration{999, time.Microsecond, 3 * time.Microsecond, 1024 * time.Microsecond, time.Second, 24 * time.Hour} {
		before := d
		d.Add(delay)
		for bucket := range d.Buckets {
			low, high := DelayBounds(bucket)
			in := delay >= low && (delay < high || bucket == len(d.Buckets)-1)
			if added := d.Buckets[bucket] != before.Buckets[bucket]; added != in {
				t.Errorf("delay %d, %v: added to the bucket from %v to %v: %v", i, delay, low, high, added)
			}
		}
	}
	d.Add(-time.Second)
	if d.Count() != 7 || d.Buckets[0] != 2 || d.Sum < 24*time.Hour {
		t.Errorf("%+v", d)
	}
	for q, want := range map[float64]time.Duration{0: time.Microsecond, 0.25: time.Microsecond, 0.5: 4 * time.Microsecond, 0.8: 1 << 20 * time.Microsecond} {
		if got := d.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	for bucket := 1; bucket < len(d.Buckets); bucket++ {
		_, before := DelayBounds(bucket - 1)
		if low, high := DelayBounds(bucket); low != before || high-low > max(low/4, time.Microsecond) {
			t.Errorf("bucket %d is from %v to %v, the one before to %v", bucket, low, high, before)
		}
	}
}
