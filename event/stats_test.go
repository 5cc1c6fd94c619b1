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
	for bucket, delay := range map[int]time.Duration{0: 999, 1: time.Microsecond, 2: 3 * time.Microsecond, 11: 1024 * time.Microsecond, 20: time.Second, 31: 24 * time.Hour} {
		before := d.Buckets[bucket]
		if d.Add(delay); d.Buckets[bucket] != before+1 {
			t.Errorf("%v is not in bucket %d", delay, bucket)
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
}
