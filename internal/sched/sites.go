package sched

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/event"
)

// Site is the goroutines of one origin: made by the same go statement, or by nothing that is known.
type Site struct {
	ID     int           // stays the same as long as the program is not replaced
	Origin *event.Origin // nil when it is not known
	Other  bool          // origins beyond Options.MaxSites, put together; Origin is empty
	Flow

	execs uint64
}

// Sites returns what is known of goroutines by origin, those with the most live ones first.
func (m *Machine) Sites() []Site {
	m.mu.Lock()
	list := make([]Site, len(m.origins))
	for i := range m.sites.n {
		s := m.sites.at(i)
		s.sync(m.epoch)
		list[s.origin].add(s, m.now)
	}
	for i := range list {
		list[i].ID, list[i].Origin, list[i].Other, list[i].execs = i, m.origins[i], i == originOther, m.execs
	}
	m.mu.Unlock()
	list = slices.DeleteFunc(list, func(s Site) bool { return s.empty() })
	SortSites(list, SitesByLive)
	return list
}

// SubSites returns now with counts and times as differences to an earlier look, in the order of now. Live and States are
// those of now, Done is the time of the interval and Open empty, as in Totals.Sub.
func SubSites(now, earlier []Site) []Site {
	before := make(map[int]*Flow, len(earlier))
	for i := range earlier {
		if len(now) > 0 && earlier[i].execs == now[0].execs {
			before[earlier[i].ID] = &earlier[i].Flow
		}
	}
	list := slices.Clone(now)
	for i := range list {
		old := before[list[i].ID]
		if old == nil {
			old = &Flow{}
		}
		list[i].Flow = list[i].sub(old)
	}
	return list
}

// SiteOrder is an order of sites, the largest first.
type SiteOrder int

// The orders.
const (
	SitesByLive SiteOrder = iota
	SitesByCreated
	SitesByEnded
	SitesByGrowth // created less ended
	SitesByRunning
	SitesByRunnable
	SitesByBlocked
	SitesBySyscall
)

// SortSites sorts sites. Equal ones are in the order of their IDs.
func SortSites(list []Site, by SiteOrder) {
	times := func(pick func(*Times) Nanos) func(a, b *Site) int {
		return func(a, b *Site) int {
			x, y := a.Time(), b.Time()
			return pick(&x).Cmp(pick(&y))
		}
	}
	less := map[SiteOrder]func(a, b *Site) int{
		SitesByLive:    func(a, b *Site) int { return cmp.Compare(a.Live, b.Live) },
		SitesByCreated: func(a, b *Site) int { return cmp.Compare(a.Created, b.Created) },
		SitesByEnded:   func(a, b *Site) int { return cmp.Compare(a.Ended, b.Ended) },
		SitesByGrowth: func(a, b *Site) int {
			return cmp.Compare(int64(a.Created-a.Ended), int64(b.Created-b.Ended))
		},
		SitesByRunning:  times(func(t *Times) Nanos { return t.Running }),
		SitesByRunnable: times(func(t *Times) Nanos { return t.Runnable }),
		SitesByBlocked:  times(func(t *Times) Nanos { return t.Blocked }),
		SitesBySyscall:  times(func(t *Times) Nanos { return t.Syscall }),
	}[by]
	slices.SortFunc(list, func(a, b Site) int {
		return cmp.Or(less(&b, &a), cmp.Compare(a.ID, b.ID))
	})
}

// Creation is the goroutines of one origin that were created from one stack.
type Creation struct {
	Origin *event.Origin // nil when it is not known
	Stack  *event.Stack  // of the creator; nil when it was not recorded, or for those alive when the observation began
	Other  bool          // stacks beyond Options.MaxSites, put together
	Flow
}

// Creations returns what is known of goroutines by origin and stack of their creator, those with the most created ones
// first. It is what a profile of creations is made of.
func (m *Machine) Creations() []Creation {
	m.mu.Lock()
	list := make([]Creation, m.sites.n)
	for i := range list {
		s := m.sites.at(uint32(i))
		s.sync(m.epoch)
		list[i] = Creation{Origin: m.origins[s.origin], Stack: shown(s.stack), Other: s.stack == otherStack}
		list[i].add(s, m.now)
	}
	m.mu.Unlock()
	list = slices.DeleteFunc(list, func(c Creation) bool { return c.empty() })
	slices.SortStableFunc(list, func(a, b Creation) int { return cmp.Compare(b.Created, a.Created) })
	return list
}

// shown returns a stack for callers: nil instead of otherStack.
func shown(stack *event.Stack) *event.Stack {
	if stack == otherStack {
		return nil
	}
	return stack
}
