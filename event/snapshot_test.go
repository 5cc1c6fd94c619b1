package event

import "testing"

// TestRanSince checks RanSince with each kind of evidence alone.
func TestRanSince(t *testing.T) {
	earlier := &Goroutine{Stops: 7, StackEnd: 0xc000100000, StackHash: 1}
	for _, test := range []struct {
		name string
		now  Goroutine
		ran  bool
	}{
		{"nothing has changed", Goroutine{Stops: 7, StackEnd: 0xc000100000, StackHash: 1}, false},
		{"other contents", Goroutine{Stops: 7, StackEnd: 0xc000100000, StackHash: 2}, true},
		{"the stack was moved", Goroutine{Stops: 7, StackEnd: 0xc000200000, StackHash: 2}, false},
		{"the stack was moved after a stop", Goroutine{Stops: 8, StackEnd: 0xc000200000, StackHash: 2}, true},
		{"the same contents after a stop", Goroutine{Stops: 8, StackEnd: 0xc000100000, StackHash: 1}, true},
		{"the count has come round", Goroutine{Stops: 6, StackEnd: 0xc000100000, StackHash: 1}, true},
	} {
		if ran := test.now.RanSince(earlier); ran != test.ran {
			t.Errorf("%s: RanSince is %t, want %t", test.name, ran, test.ran)
		}
	}
}
