package census

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/internal/goproc"
)

// maxCreators bounds a chain of creators.
const maxCreators = 8

// Creators returns the goroutine that created g, then the one that created that, as far as they are alive: of one that has
// ended a snapshot knows nothing.
func Creators(snap *goproc.Snapshot, g *goproc.Goroutine) []*goproc.Goroutine {
	var chain []*goproc.Goroutine
	for len(chain) < maxCreators {
		i, ok := slices.BinarySearchFunc(snap.Goroutines, g.Parent, func(g goproc.Goroutine, id uint64) int { return cmp.Compare(g.ID, id) })
		if !ok || g.Parent >= g.ID { // a creator is older: its ID is smaller
			break
		}
		g = &snap.Goroutines[i]
		chain = append(chain, g)
	}
	return chain
}
