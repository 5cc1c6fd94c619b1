package order

import (
	"math/rand/v2"
	"testing"
)

// TestFrontier verifies that the earliest thread is always the first one.
func TestFrontier(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var f frontier
	for range 50_000 {
		switch n := len(f); {
		case n == 0 || n < 40 && rng.IntN(3) == 0:
			f.push(&Cursor{Record: &Record{Time: rng.Int64N(100)}})
		case rng.IntN(4) == 0:
			f.remove(rng.IntN(n))
		case rng.IntN(4) == 0:
			f.sort()
		case rng.IntN(2) == 0:
			f[0].time = rng.Int64N(100)
			f.updateFirst()
		default:
			i := rng.IntN(n)
			f[i].time = rng.Int64N(100)
			f.update(i)
		}
		for i := 1; i < len(f); i++ {
			if f[i].time < f[(i-1)/2].time {
				t.Fatalf("no heap: %v", f)
			}
		}
	}
}
