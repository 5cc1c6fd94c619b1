package memtrace

import "testing"

// TestGrowOnce has many goroutines find the table full before the first of them makes it larger.
func TestGrowOnce(t *testing.T) {
	v := newestVersion()
	for range 8 {
		goroutines.growFrom(v)
	}
	if got, want := newestVersion().mask+1, 2*(v.mask+1); got != want {
		t.Errorf("%d buckets, want %d", got, want)
	}
}
