package target

import (
	"github.com/loupe-go/loupe/internal/agent/metric"

	"github.com/loupe-go/loupe/allocs"
)

// allocations are estimates of the bytes that functions have allocated.
type allocations struct {
	of     map[string]uint64 // bytes by function
	before map[string]uint64 // of the current watch, as of the last reading
	watch  *watch
}

// allocated reads what a watch has counted. The caller holds mu.
func (t *Target) allocated(w *watch) {
	if !w.allocs {
		return
	}
	c, err := w.session.Allocs()
	if err != nil {
		t.log.Debug("allocations cannot be read", "pid", t.opt.PID, "err", err)
		return
	}
	a := &t.allocs
	if a.watch != w {
		a.watch, a.before = w, nil
	}
	if a.of == nil {
		a.of = map[string]uint64{}
	}
	now := map[string]uint64{}
	for _, g := range c.By(allocs.ByFunction) { // those with the most bytes first
		name := g.Frame.Func
		if _, known := a.of[name]; g.Rest || name == "" || !known && len(a.of) >= t.settings.Sites {
			name = otherSites // it stays there, so that no counter decreases
		}
		now[name] += g.Bytes
		if _, known := a.of[name]; !known {
			a.of[name] = 0
		}
	}
	for name, n := range now {
		a.of[name] += n - min(n, a.before[name]) // an estimate can be corrected
	}
	a.before = now
}

// points are the points of all functions.
func (a *allocations) points() []metric.Point {
	list := make([]metric.Point, 0, len(a.of))
	for name, n := range a.of {
		list = append(list, metric.Allocated.Of(float64(n), name))
	}
	return list
}
