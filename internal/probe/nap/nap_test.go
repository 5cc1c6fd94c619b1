package nap

import (
	"testing"
	"time"
)

// TestFast asks after times of different lengths: what counts is how much comes in a second.
func TestFast(t *testing.T) {
	for _, since := range []time.Duration{10 * time.Second, 100 * time.Second} {
		for _, test := range []struct {
			rate float64 // of bytes a second, as a part of what is fast
			want bool
		}{{0, false}, {0.5, false}, {2, true}} {
			r := Rate{asked: time.Now().Add(-since)}
			if got := r.Fast(uint64(test.rate * fastBytes * since.Seconds())); got != test.want {
				t.Errorf("%v of what is fast, for %v: %v", test.rate, since, got)
			}
		}
	}
	if new(Rate).Fast(1 << 40) {
		t.Error("fast, when asked for the first time")
	}
}
