package sched

import "github.com/loupe-go/loupe/event"

// maxAncestors is how many ended goroutines are kept for the chains of creators. It is a power of two: IDs
// increase, so the lower bits of an ID are its index, and a newer goroutine replaces an older one.
const maxAncestors = 1 << 16

// ancestor is an ended goroutine that created others.
type ancestor struct {
	id, parent uint64
	site       uint32
}

// ancestors are kept by a Machine that keeps a history. The zero value is ready for use.
type ancestors struct{ list []ancestor }

// add adds a goroutine that ends.
func (a *ancestors) add(id uint64, en *entry) {
	if a.list == nil {
		a.list = make([]ancestor, maxAncestors)
	}
	a.list[id%maxAncestors] = ancestor{id, en.parent, en.site}
}

// creates marks a goroutine that has created another one.
func (m *Machine) creates(parent uint64) {
	if !m.history.on() {
		return
	}
	if en := m.table.Find(parent); en != nil {
		en.flags |= flagCreator
	}
}

// Creator returns the parent and the origin of a goroutine that is alive, or has created others and has ended. Of the latter,
// only a Machine with a history keeps the last ones, 65,536 at most. ok is false if the goroutine is not known.
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
