//go:build go1.23

package main

import (
	"iter"

	"github.com/loupe-go/loupe/glti"
)

const block = 20

// coroutines switches to a coroutine a known number of times, and back.
func init() {
	coroutines = func() {
		const n = 100
		var inside uint64
		_, self := glti.Self()
		list := recorded(func() {
			next, stop := iter.Pull(func(yield func(int) bool) {
				_, inside = glti.Self()
				for i := 0; i < n && yield(i); i++ {
				}
			})
			for i := 0; i < n; i++ {
				v, ok := next()
				check(ok && v == i, "the value of a coroutine", v)
			}
			stop()
		}, start, block)
		count := map[[2]uint64]int{}
		for _, r := range list {
			count[[2]uint64{uint64(r.Event), r.Goid}]++
		}
		// The coroutine runs n times, and once more to end.
		check(count[[2]uint64{start, inside}] >= n+1 && count[[2]uint64{block, inside}] == n, "switches of the coroutine", count)
		check(count[[2]uint64{start, self}] >= n+1 && count[[2]uint64{block, self}] == n+1, "switches to the coroutine", count)
	}
}
