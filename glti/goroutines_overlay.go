//go:build loupe_glti

package glti

import (
	"runtime"
	"sync"
)

// patchedGoroutines are the goroutine profiles of agents. The runtime makes one at a time.
type patchedGoroutines struct{ mu sync.Mutex }

// goroutineStacks is an open goroutine profile.
type goroutineStacks struct {
	of   *patchedGoroutines
	rate int
}

func (p *goroutineStacks) snapshot() (snapshot, error) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	defer rt_profileIDs(nil)
	n := runtime.NumGoroutine()
	for {
		records := make([]runtime.StackRecord, n+n/8+16) // more may come meanwhile
		ids := make([]G, len(records))
		rt_profileIDs(ids)
		var ok bool
		if n, ok = runtime.GoroutineProfile(records); !ok {
			continue
		}
		stacks := stackRecords(records[:n], p.rate, 0)
		for i := range stacks {
			if id := ids[i*p.rate]; id.ID != 0 {
				stacks[i].GP = id
			}
		}
		return snapshot{stacks: stacks}, nil
	}
}

func (*goroutineStacks) close() {}
