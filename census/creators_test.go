package census

import (
	"testing"

	"github.com/loupe-go/loupe/event"
)

func TestCreators(t *testing.T) {
	snap := &event.Snapshot{Goroutines: []event.Goroutine{{ID: 1}, {ID: 5, Parent: 1}, {ID: 7, Parent: 6}, {ID: 9, Parent: 5}, {ID: 10, Parent: 10}, {ID: 11, Parent: 12}, {ID: 12, Parent: 11}}}
	for id, want := range map[int][]uint64{0: {}, 1: {1}, 2: {}, 3: {5, 1}, 4: {}, 5: {}, 6: {11}} {
		chain := Creators(snap, &snap.Goroutines[id])
		if got := ids(chain); len(got) != len(want) || len(got) > 0 && got[0] != want[0] || len(got) > 1 && got[1] != want[1] {
			t.Errorf("goroutine %d: %v, want %v", snap.Goroutines[id].ID, got, want)
		}
	}
}
