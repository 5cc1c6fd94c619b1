package glti

import "sync"

// Allocations is what was allocated on the heap while allocations were counted.
type Allocations struct {
	// Bytes is the sum of the sizes of the objects, each rounded to its size class, as in the TotalAlloc of runtime.MemStats.
	Bytes uint64
	// Objects is the number of objects. Values without pointers of less than 16 bytes share an object.
	Objects uint64
}

// allocCounting has the agents that want allocations to be counted.
var allocCounting struct {
	sync.Mutex
	agents map[*agent]bool
}

// CountAllocs begins to count what each goroutine allocates, or ends that. Counting goes on while an agent wants it, and ends when the agent
// is closed. Allocations cost a few nanoseconds more. CountAllocs returns an error that wraps [ErrNotBuilt] in a stock program.
func (env *GLTIEnv) CountAllocs(on bool) error {
	a := env.agent()
	if a.slot < 0 || a.isClosed() {
		return ErrClosed
	}
	c := &allocCounting
	c.Lock()
	defer c.Unlock()
	if on == c.agents[a] {
		return nil
	}
	if on && len(c.agents) == 0 {
		if err := impl.countAllocs(true); err != nil {
			return err
		}
	}
	if !on {
		removeAllocCounter(a)
		return nil
	}
	if c.agents == nil {
		c.agents = map[*agent]bool{}
	}
	c.agents[a] = true
	a.onClose(func() {
		c.Lock()
		defer c.Unlock()
		removeAllocCounter(a)
	})
	return nil
}

// removeAllocCounter removes an agent. allocCounting is locked.
func removeAllocCounter(a *agent) {
	c := &allocCounting
	if c.agents[a] {
		delete(c.agents, a)
		if len(c.agents) == 0 {
			impl.countAllocs(false)
		}
	}
}

// Allocs returns what a goroutine has allocated while allocations were counted. gp is a [G]. ok is false if the goroutine has ended, or if
// nothing is known about it.
func (env *GLTIEnv) Allocs(gp interface{}) (a Allocations, ok bool) {
	g, ok := gp.(G)
	if !ok || !env.check("Allocs") {
		return Allocations{}, false
	}
	return impl.allocs(g)
}

// AllocsEnded returns what goroutines have allocated that have ended, and threads of the runtime without a goroutine.
func (env *GLTIEnv) AllocsEnded() Allocations {
	if !env.check("AllocsEnded") {
		return Allocations{}
	}
	return impl.allocsEnded()
}
