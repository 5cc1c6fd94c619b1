package glti

import "sync"

// ownSet has the goroutines of this package, whose events are not delivered.
type ownSet struct {
	mu  sync.Mutex
	ids map[uint64]bool
}

var ownGoroutines ownSet

// enter adds the current goroutine, and leave removes it.
func (o *ownSet) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[uint64]bool{}
	}
	o.ids[impl.current().ID] = true
}

func (o *ownSet) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ids, impl.current().ID)
}

// mark marks the goroutines in a model.
func (o *ownSet) mark(m *traceModel) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.ids {
		m.isOwn(id)
	}
}
