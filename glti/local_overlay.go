//go:build loupe_glti

package glti

import (
	"errors"
	"sync/atomic"
	"unsafe"
)

// local is the storage of a goroutine. The runtime requires that it begins with the goroutine's ID and the table.
type local struct {
	goid  uint64
	table atomic.Pointer[localTable]
}

// localTable is what is stored for a goroutine. It does not change after it was stored, so that the goroutines that inherit it have what
// their creator had then. The runtime requires that given is first.
type localTable struct {
	given   *localTable // for the goroutines that this one creates, nil if there is nothing for them
	entries [maxAgents]*localEntry
	stored  atomic.Bool // set before the table is stored: for the race detector
}

// localEntry is what an agent has stored.
type localEntry struct {
	agent     *agent // another may have had the slot
	obj       any
	ptr       uintptr
	inherited bool // by the goroutines that this one creates
}

func (e *localEntry) isEmpty() bool { return e.obj == nil && e.ptr == 0 }

var errEnded = errors.New("glti: the goroutine has ended")

// tableOf returns what is stored for a goroutine, or nil.
func tableOf(g G) *localTable {
	if g.Addr == 0 {
		return nil
	}
	if l := (*local)(rt_local(g.Addr, g.ID)); l != nil {
		return l.table.Load()
	}
	t := (*localTable)(rt_given(g.Addr, g.ID))
	if t != nil && !t.stored.Load() {
		panic("glti: a table that was not stored")
	}
	return t
}

// entry returns what an agent has stored.
func (t *localTable) entry(a *agent) (e localEntry) {
	if t != nil {
		if has := t.entries[a.slot]; has != nil && has.agent == a {
			e = *has
		}
	}
	return e
}

// with returns the table with another entry.
func (t *localTable) with(e localEntry) *localTable {
	next := new(localTable)
	if t != nil {
		next.entries = t.entries
	}
	next.entries[e.agent.slot] = nil
	if !e.isEmpty() {
		next.entries[e.agent.slot] = &e
	}
	given := new(localTable)
	for i, e := range next.entries {
		if e != nil && e.inherited {
			given.entries[i] = e
		}
	}
	switch given.entries {
	case [maxAgents]*localEntry{}:
	case next.entries:
		next.given = next
	default:
		given.given = given
		given.stored.Store(true)
		next.given = given
	}
	next.stored.Store(true)
	return next
}

// store changes what an agent has stored for a goroutine.
func store(a *agent, g G, change func(*localEntry)) error {
	if g.Addr == 0 {
		return errEnded
	}
	began := tableOf(g)
	e := began.entry(a)
	had := e.agent != nil
	if change(&e); e.isEmpty() && !had {
		return nil
	}
	l := &local{goid: g.ID}
	l.table.Store(began)
	if l = (*local)(rt_setLocal(g.Addr, g.ID, unsafe.Pointer(l))); l == nil {
		return errEnded
	}
	for {
		old := l.table.Load()
		e := old.entry(a)
		change(&e)
		e.agent, e.inherited = a, a.inherits.Load()
		if l.table.CompareAndSwap(old, old.with(e)) {
			return nil
		}
	}
}

func (*overlay) glsGet(a *agent, g G) any { return tableOf(g).entry(a).obj }

func (*overlay) glsSet(a *agent, g G, obj any) error {
	return store(a, g, func(e *localEntry) { e.obj = obj })
}

func (*overlay) glsGetPtr(a *agent, g G) uintptr { return tableOf(g).entry(a).ptr }

func (*overlay) glsSetPtr(a *agent, g G, ptr uintptr) error {
	return store(a, g, func(e *localEntry) { e.ptr = ptr })
}

func (*overlay) inherit(on bool) error {
	rt_inherit(on)
	return nil
}
