package idtable

import (
	"slices"
	"testing"
)

func TestIndex(t *testing.T) {
	for _, ids := range [][]uint64{{}, {1, 2, 3}, {3, 1, 2, 1}, {1 << 60, 5, 1 << 60}, {^uint64(0)}} {
		var x Index
		for _, id := range ids {
			x.Add(id)
		}
		var twice []int
		x.Build(func(i int) { twice = append(twice, i) })
		first := map[uint64]int{}
		var wantTwice []int
		for i, id := range ids {
			if _, ok := first[id]; ok {
				wantTwice = append(wantTwice, i)
				continue
			}
			first[id] = i
		}
		if !slices.Equal(twice, wantTwice) {
			t.Errorf("%v: twice %v, want %v", ids, twice, wantTwice)
		}
		for _, id := range append(ids, 0, 4, 6, 1<<61) {
			want, ok := first[id]
			if !ok {
				want = -1
			}
			if got := x.Find(id); got != want {
				t.Errorf("%v: find(%d) = %d, want %d", ids, id, got, want)
			}
		}
		x.Reset()
		x.Build(nil)
		if x.Find(1) != -1 || x.Find(5) != -1 {
			t.Errorf("%v: not reset", ids)
		}
	}
}
