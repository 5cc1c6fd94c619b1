package goproc

import "testing"

// TestRanSinceEvidence holds RanSince against each kind of evidence alone.
func TestRanSinceEvidence(t *testing.T) {
	earlier := &Goroutine{stops: 7, stackTop: 0xc000100000, stackSum: 1}
	for _, test := range []struct {
		name string
		now  Goroutine
		ran  bool
	}{
		{"nothing has changed", Goroutine{stops: 7, stackTop: 0xc000100000, stackSum: 1}, false},
		{"other contents", Goroutine{stops: 7, stackTop: 0xc000100000, stackSum: 2}, true},
		{"the stack was moved", Goroutine{stops: 7, stackTop: 0xc000200000, stackSum: 2}, false},
		{"the stack was moved after a stop", Goroutine{stops: 8, stackTop: 0xc000200000, stackSum: 2}, true},
		{"the same contents after a stop", Goroutine{stops: 8, stackTop: 0xc000100000, stackSum: 1}, true},
		{"the count has come round", Goroutine{stops: 6, stackTop: 0xc000100000, stackSum: 1}, true},
	} {
		if ran := test.now.RanSince(earlier); ran != test.ran {
			t.Errorf("%s: RanSince is %t, want %t", test.name, ran, test.ran)
		}
	}
}
