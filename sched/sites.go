package sched

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/event"
)

// A Site is the goroutines of one origin, that is, those created by the same go statement.
type Site struct {
	ID     int           // does not change until the next Exec event
	Origin *event.Origin // nil for goroutines whose origin is unknown
	Other  bool          // combines the origins beyond Options.MaxSites; Origin is empty
	Flow

	execs uint64
}

// Sites returns all sites, sorted by [SitesByLive].
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

// SubSites returns the change of each site of now since earlier, a previous result of [Machine.Sites]. The order is that of
// now. See [Totals.Sub] for the meaning of the fields. If there was an Exec event in between, or a site is not in earlier, the
// counts and times are copied from now, with Done and Open combined.
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

// A SiteOrder is a sort order of sites. The largest value is first.
type SiteOrder int

// The sort orders of sites.
const (
	SitesByLive     SiteOrder = iota // Flow.Live
	SitesByCreated                   // Flow.Created
	SitesByEnded                     // Flow.Ended
	SitesByGrowth                    // Flow.Created - Flow.Ended
	SitesByRunning                   // running time, Done and Open
	SitesByRunnable                  // runnable time, Done and Open
	SitesByBlocked                   // blocked time, Done and Open
	SitesBySyscall                   // time in system calls, Done and Open
)

// SortSites sorts list in place. Sites that are otherwise equal are in ascending order of their IDs. The order must be one of
// the SitesBy constants.
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

// A Creation is the goroutines of one origin that were created from one stack.
type Creation struct {
	Origin *event.Origin // nil if unknown

	// Stack is the stack of the creator. It is nil if it was not recorded, and for goroutines whose creation was not observed.
	Stack *event.Stack

	Other bool // combines the stacks beyond Options.MaxSites; Stack is nil
	Flow
}

// Creations returns the goroutines by origin and creation stack, sorted by Created in descending order. It is the data of a
// profile of goroutine creations.
func (m *Machine) Creations() []Creation {
	m.mu.Lock()
	list := make([]Creation, m.sites.n)
	for i := range list {
		s := m.sites.at(uint32(i))
		s.sync(m.epoch)
		list[i] = Creation{Origin: m.origins[s.origin], Stack: publicStack(s.stack), Other: s.stack == otherStack}
		list[i].add(s, m.now)
	}
	m.mu.Unlock()
	list = slices.DeleteFunc(list, func(c Creation) bool { return c.empty() })
	slices.SortStableFunc(list, func(a, b Creation) int { return cmp.Compare(b.Created, a.Created) })
	return list
}

// publicStack returns the stack, or nil if it is otherStack, which callers must not see.
func publicStack(stack *event.Stack) *event.Stack {
	if stack == otherStack {
		return nil
	}
	return stack
}
