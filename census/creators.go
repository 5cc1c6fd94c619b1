package census

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/event"
)

// maxCreators bounds a chain of creators.
const maxCreators = 8

// Creators returns the goroutine that created g, the goroutine that created that one, and so on. The chain ends at a
// goroutine that is not in the snapshot because it has exited, and after eight goroutines.
func Creators(snap *event.Snapshot, g *event.Goroutine) []*event.Goroutine {
	var chain []*event.Goroutine
	for len(chain) < maxCreators {
		i, ok := slices.BinarySearchFunc(snap.Goroutines, g.Parent, func(g event.Goroutine, id uint64) int { return cmp.Compare(g.ID, id) })
		if !ok || g.Parent >= g.ID { // a creator is older: its ID is smaller
			break
		}
		g = &snap.Goroutines[i]
		chain = append(chain, g)
	}
	return chain
}
