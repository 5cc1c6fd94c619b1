package sched

import "github.com/loupe-go/loupe/event"

// maxAncestors is the maximum number of ended goroutines that are kept for Creator. It is a power of two. The lower bits of an
// ID are its index. IDs increase, so a newer goroutine replaces an older one.
const maxAncestors = 1 << 16

// ancestor is an ended goroutine that created other goroutines.
type ancestor struct {
	id, parent uint64
	site       uint32
}

// ancestors holds recently ended goroutines. It remains empty in a Machine without a history. The zero value is ready to use.
type ancestors struct{ list []ancestor }

// add adds a goroutine that has ended.
func (a *ancestors) add(id uint64, en *entry) {
	if a.list == nil {
		a.list = make([]ancestor, maxAncestors)
	}
	a.list[id%maxAncestors] = ancestor{id, en.parent, en.site}
}

// creates marks a goroutine as the creator of another goroutine.
func (m *Machine) creates(parent uint64) {
	if !m.history.enabled() {
		return
	}
	if en := m.table.Find(parent); en != nil {
		en.flags |= flagCreator
	}
}

// Creator returns the ID of the parent (0 if unknown) and the origin (nil if unknown) of the goroutine with the given ID. It
// knows live goroutines and, if [Options].History is not 0, at most 65,536 ended goroutines that have created other
// goroutines. ok is false if the goroutine is unknown.
func (m *Machine) Creator(id uint64) (parent uint64, origin *event.Origin, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == 0 {
		return 0, nil, false
	}
	if en := m.table.Find(id); en != nil {
		return en.parent, m.origins[m.sites.at(en.site).origin], true
	}
	if m.ancestors.list != nil {
		if a := m.ancestors.list[id%maxAncestors]; a.id == id {
			return a.parent, m.origins[m.sites.at(a.site).origin], true
		}
	}
	return 0, nil, false
}
