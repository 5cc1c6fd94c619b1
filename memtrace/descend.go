package memtrace

import (
	"slices"
	"unsafe"
)

// heritage is what a new goroutine counts into: traces, and all their gauges.
type heritage struct {
	traces []*trace
	gauges gaugeLists
}

// addFrom adds the traces that count the descendants of the goroutine of c.
func (h *heritage) addFrom(c *cell) {
	for i := range c.members {
		if t := c.members[i].trace.Load(); t != nil && t.descendants {
			h.add(t)
		}
	}
}

// add adds a trace and those around it.
func (h *heritage) add(t *trace) {
	if h.traces == nil {
		h.traces, h.gauges = t.within, t.gauges
		return
	}
	known := len(h.traces)
	for _, w := range t.within {
		if !slices.Contains(h.traces, w) {
			h.traces = append(slices.Clip(h.traces), w)
		}
	}
	if len(h.traces) == known {
		return
	}
	var all []*gauge
	for _, w := range h.traces {
		all = append(all, w.limits...)
	}
	h.gauges = newGaugeLists(all)
}

// descendant returns a function that calls f in a goroutine that counts. It is not inlined: all functions that it returns have
// the same code, by which the hook recognizes them.
//
//go:noinline
func descendant(into heritage, f func()) func() {
	return func() {
		c := newCell(into.traces, into.gauges)
		defer c.detach()
		c.attach()
		f()
	}
}

// inherited returns what the calling goroutine is to start instead of f, the function value of its go statement. The hook of
// newproc calls it for goroutines whose cells have starts set.
func inherited(f unsafe.Pointer) unsafe.Pointer {
	c := pause()
	defer goroutines.swap(getg(), c)
	var into heritage
	into.addFrom(c)
	if into.traces == nil {
		c.starts = 0 // all have ended
		return f
	}
	child := descendant(into, *(*func())(unsafe.Pointer(&f)))
	return *(*unsafe.Pointer)(unsafe.Pointer(&child))
}
