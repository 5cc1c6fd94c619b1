package sampling

import (
	"math"
	"testing"
)

// TestRatio compares the part that is selected with the ratio, for IDs as programs have them: consecutive, in batches of 16 of which few
// or one is used, and every few of a server that creates the same number for each request.
func TestRatio(t *testing.T) {
	const n = 200_000
	for _, ids := range []struct {
		name string
		id   func(i uint64) uint64
	}{
		{"consecutive", func(i uint64) uint64 { return i }},
		{"first of a batch", func(i uint64) uint64 { return 16*i + 1 }},
		{"three of a batch", func(i uint64) uint64 { return i/3*16 + i%3 }},
		{"every thirteenth", func(i uint64) uint64 { return 13*i + 5 }},
		{"every 987th", func(i uint64) uint64 { return 987 * i }},
		{"large", func(i uint64) uint64 { return 1<<40 + 7*i }},
	} {
		for _, ratio := range []float64{0.01, 0.1, 0.5, 0.9, 1} {
			r, err := Of(ratio)
			if err != nil {
				t.Fatal(err)
			}
			count, longest, row := 0, 0, 0
			for i := range uint64(n) {
				if row++; r.Selects(ids.id(i + 1)) {
					count++
					row = 0
				}
				longest = max(longest, row)
			}
			if got, most := float64(count)/n, 5*math.Sqrt(ratio*(1-ratio)/n); math.Abs(got-ratio) > most {
				t.Errorf("%s: %.4f of the goroutines are selected, want %.4f±%.4f", ids.name, got, ratio, most)
			}
			if most := int(20 / ratio); longest > most {
				t.Errorf("%s: %d goroutines in a row are not selected, want at most %d", ids.name, longest, most)
			}
		}
	}
}

// TestSubset checks that a lower ratio selects nothing that a higher one does not.
func TestSubset(t *testing.T) {
	for id := range uint64(100_000) {
		before := true
		for _, n := range []int{0, 1, 2, 3, 7, 10, 99, 100, 1000} {
			now := OneIn(n).Selects(id)
			if now && !before {
				t.Fatalf("goroutine %d is one in %d, but not of more", id, n)
			}
			before = now
		}
	}
}

func TestBounds(t *testing.T) {
	for _, ratio := range []float64{0, -1, 1.01, Least / 2, math.NaN(), math.Inf(1)} {
		if r, err := Of(ratio); err == nil {
			t.Errorf("Of(%v) = %v", ratio, r)
		}
	}
	for _, ratio := range []float64{Least, 0.01, 1} {
		r, err := Of(ratio)
		if err != nil || math.Abs(r.Ratio()-ratio) > 1e-9 || !r.Selects(0) {
			t.Errorf("Of(%v) = %v, %v: ratio %v", ratio, r, err, r.Ratio())
		}
	}
	for _, r := range []Rule{0, 1, OneIn(7), math.MaxUint32} {
		if back := OfShare(r.Share()); back != r {
			t.Errorf("%d of 2^32 goroutines: rule %v, want %v", r.Share(), back, r)
		}
	}
	if OneIn(0) != 0 || OneIn(1) != 0 || OneIn(math.MaxInt).Ratio() < Least/2 {
		t.Error(OneIn(0), OneIn(1), OneIn(math.MaxInt))
	}
}
