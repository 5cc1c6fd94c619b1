package discover

import "sync"

// generations is a map of bounded size. It keeps the newer and the older half: when the newer half is full, the older half is dropped.
// A value that is used moves to the newer half. It is safe for concurrent use.
type generations[K comparable, V any] struct {
	half int

	mu         sync.Mutex
	newer, old map[K]V
}

func newGenerations[K comparable, V any](size int) *generations[K, V] {
	return &generations[K, V]{half: size / 2, newer: map[K]V{}}
}

func (g *generations[K, V]) get(k K) (V, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.newer[k]
	if !ok {
		if v, ok = g.old[k]; ok {
			g.add(k, v)
		}
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, v V) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(k, v)
}

func (g *generations[K, V]) add(k K, v V) {
	if len(g.newer) >= g.half {
		g.old, g.newer = g.newer, make(map[K]V, g.half)
	}
	g.newer[k] = v
}
