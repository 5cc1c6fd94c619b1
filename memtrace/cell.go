package memtrace

import (
	"sync/atomic"
	"unsafe"
)

// cell counts what one goroutine allocates while it is attached. Only the hook writes the counts, for the goroutine itself.
type cell struct {
	bytes    int64   // offset 0
	objects  int64   // 8
	elements int64   // 16
	byBytes  **gauge // 24: gauges that bytes count into, and nil
	byCalls  **gauge // 32: gauges that calls count into, and nil
	starts   uint64  // 40: 1 if goroutines that the goroutine starts may count, too; only the goroutine itself changes it

	members []member // in all traces that the counts belong to
}

// member is a cell's place in the list of a trace.
type member struct {
	trace atomic.Pointer[trace] // nil when the trace has ended
	at    int                   // index of the entry
}

// entry is an element of the list of a trace.
type entry struct {
	cell   *cell
	member *member
}

// The assembly relies on these.
const (
	_ = uint(0 - unsafe.Offsetof(cell{}.bytes))
	_ = uint(8-unsafe.Offsetof(cell{}.objects)) + uint(unsafe.Offsetof(cell{}.objects)-8)
	_ = uint(16-unsafe.Offsetof(cell{}.elements)) + uint(unsafe.Offsetof(cell{}.elements)-16)
	_ = uint(24-unsafe.Offsetof(cell{}.byBytes)) + uint(unsafe.Offsetof(cell{}.byBytes)-24)
	_ = uint(32-unsafe.Offsetof(cell{}.byCalls)) + uint(unsafe.Offsetof(cell{}.byCalls)-32)
	_ = uint(40-unsafe.Offsetof(cell{}.starts)) + uint(unsafe.Offsetof(cell{}.starts)-40)
)

// usage is what was allocated. Calls are objects plus what Add has added.
type usage struct{ bytes, objects, calls, elements int64 }

func (u *usage) add(v usage) {
	u.bytes = saturate(u.bytes, v.bytes)
	u.objects = saturate(u.objects, v.objects)
	u.calls = saturate(u.calls, v.calls)
	u.elements = saturate(u.elements, v.elements)
}

func newCell(traces []*trace, gauges gaugeLists) *cell {
	c := &cell{byBytes: gauges.byBytes, byCalls: gauges.byCalls}
	c.members = make([]member, len(traces))
	for i, t := range traces {
		c.members[i].trace.Store(t)
		if t.descendants {
			c.starts = 1
		}
	}
	return c
}

func (c *cell) usage() usage {
	objects := atomic.LoadInt64(&c.objects)
	return usage{atomic.LoadInt64(&c.bytes), objects, objects, atomic.LoadInt64(&c.elements)}
}

// pause makes what the calling goroutine allocates count into no cell, and returns the cell that it counted into.
func pause() *cell { return goroutines.swap(getg(), nil) }

// attach makes what the calling goroutine allocates count into c. The goroutine was paused.
func (c *cell) attach() {
	for i := range c.members {
		m := &c.members[i]
		t := m.trace.Load()
		t.mu.Lock()
		if t.ended.Load() {
			m.trace.Store(nil)
		} else {
			m.at = len(t.cells)
			t.cells = append(t.cells, entry{c, m})
		}
		t.mu.Unlock()
	}
	goroutines.swap(getg(), c)
}

// detach ends what attach began, on the same goroutine, which is paused then.
func (c *cell) detach() {
	goroutines.swap(getg(), nil)
	if c.fired() {
		cancelFired()
	}
	u := c.usage()
	for i := range c.members {
		m := &c.members[i]
		if t := m.trace.Load(); t != nil {
			t.remove(m, u)
		}
	}
}

// fired reports whether a gauge of the cell was put into the list.
func (c *cell) fired() bool {
	for _, list := range []**gauge{c.byBytes, c.byCalls} {
		for ; list != nil && *list != nil; list = next(list) {
			if atomic.LoadUint32(&(*list).fired) != 0 {
				return true
			}
		}
	}
	return false
}

func next(list **gauge) **gauge {
	return (**gauge)(unsafe.Add(unsafe.Pointer(list), unsafe.Sizeof(list)))
}
