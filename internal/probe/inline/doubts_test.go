package inline

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestDoubts compares the bounds with sorted values: no bound is below the truth, nor above it by more than an eighth.
func TestDoubts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 99, 100, 101, 5000} {
		for _, top := range []uint{0, 1, 4, 5, 20, 40, 63} {
			var d doubts
			all := []uint64{}
			for range n {
				all = append(all, rng.Uint64N(1<<top))
				d.add(all[len(all)-1])
			}
			slices.Sort(all)
			p99, most := uint64(0), uint64(0)
			if n > 0 {
				p99, most = all[n-1-n/100], all[n-1]
			}
			e := d.bound()
			if uint64(e.Max) != most || uint64(e.P99) < p99 || uint64(e.P99) > p99+p99/8+1 || e.P99 > e.Max {
				t.Errorf("%d values below 2^%d: %+v, want %d and %d", n, top, e, p99, most)
			}
		}
	}
	var d doubts
	d.add(1<<63 + 5)
	if e := d.bound(); d.most != 1<<63+5 || e.P99 != e.Max {
		t.Errorf("the largest: %+v", e)
	}
}
