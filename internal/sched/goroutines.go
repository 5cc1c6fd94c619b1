package sched

import (
	"cmp"
	"sort"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// Goroutine is a live goroutine.
type Goroutine struct {
	ID     uint64
	Parent uint64 // who created it; 0 when it is not known

	Site          int           // Site.ID
	Origin        *event.Origin // nil when it is not known
	CreationStack *event.Stack  // of its creator; nil when it was not recorded
	Created       int64         // nanoseconds since the Unix epoch; 0 when that was before the observation
	Seen          int64         // when it was first seen
	Found         bool          // its creation should have been seen and was not

	State     event.State // empty when it is not known
	Reason    string      // why it waits; why it was stopped, when it is runnable
	Since     int64       // when it entered the state, as far as that is known
	Uncertain bool        // events were lost since its last one
	Repairs   uint32      // how often an event did not fit what was known

	// Times by state since it was first seen, until Machine's now.
	Running, Runnable, Blocked, Syscall, InDoubt time.Duration

	Starts, Blocks uint64 // how often it began to run, and to wait

	Woken     bool         // somebody has ended a wait of it
	Waker     uint64       // who did last; 0 is the scheduler: network, timers, garbage collector
	WakeStack *event.Stack // where; nil when it was not recorded

	Stack *event.Stack // where it was last; nil when it was not recorded
	Place int          // Place.ID of that
}

// InState returns how long it has been in its state.
func (g *Goroutine) InState(now int64) time.Duration { return time.Duration(max(now-g.Since, 0)) }

// Goroutine returns a live goroutine; false when there is none of that ID.
func (m *Machine) Goroutine(id uint64) (Goroutine, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	en := m.table.Find(id)
	if en == nil || id == 0 {
		return Goroutine{}, false
	}
	var g Goroutine
	m.view(id, en, &g)
	return g, true
}

// view copies an entry.
func (m *Machine) view(id uint64, en *entry, g *Goroutine) {
	s, p := m.sites.at(en.site), m.places.at(en.place)
	*g = Goroutine{
		ID: id, Parent: en.parent,
		Site: int(s.origin), Origin: m.origins[s.origin], CreationStack: shown(s.stack), Seen: en.seen,
		Found: en.flags&flagFound != 0,
		State: en.state.Name(), Since: en.since, Uncertain: en.epoch != m.epoch, Repairs: uint32(en.repairs),
		Running: time.Duration(en.spent[gostate.Running-1]), Runnable: time.Duration(en.spent[gostate.Runnable-1]),
		Blocked: time.Duration(en.spent[gostate.Waiting-1]), Syscall: time.Duration(en.spent[gostate.Syscall-1]),
		InDoubt: time.Duration(en.uncertain()),
		Starts:  en.starts, Blocks: en.blocks,
		Stack: shown(p.stack), Place: int(en.place),
	}
	if en.flags&(flagAtStart|flagFound) == 0 {
		g.Created = en.seen
	}
	if en.flags&flagLeaked != 0 {
		g.State = event.StateLeaked
	}
	if en.state == gostate.Waiting || en.state == gostate.Runnable && p.role == Stops {
		g.Reason = p.text
	}
	if en.flags&flagWoken != 0 {
		g.Woken, g.Waker = true, en.waker
		g.WakeStack = shown(m.places.at(en.wake).stack)
	}
	open := time.Duration(m.now - en.counted())
	switch {
	case g.Uncertain || en.state == gostate.Unknown:
		g.InDoubt += open
	case en.state == gostate.Running:
		g.Running += open
	case en.state == gostate.Runnable:
		g.Runnable += open
	case en.state == gostate.Waiting:
		g.Blocked += open
	case en.state == gostate.Syscall:
		g.Syscall += open
	}
}

// Order is an order of goroutines.
type Order int

// The orders. All but the first two put the largest first.
const (
	ByID       Order = iota
	ByOldest         // the longest in its state first
	ByNewest         // the last created first
	ByRunning        // time in the state
	ByRunnable       // time in the state
	ByBlocked        // time in the state
	BySyscall        // time in the state
	ByStarts         // how often it began to run
	ByBlocks         // how often it began to wait
)

var orders = map[Order]func(a, b *Goroutine) int{
	ByID:       func(a, b *Goroutine) int { return 0 },
	ByOldest:   func(a, b *Goroutine) int { return cmp.Compare(a.Since, b.Since) },
	ByNewest:   func(a, b *Goroutine) int { return cmp.Compare(b.ID, a.ID) },
	ByRunning:  func(a, b *Goroutine) int { return cmp.Compare(b.Running, a.Running) },
	ByRunnable: func(a, b *Goroutine) int { return cmp.Compare(b.Runnable, a.Runnable) },
	ByBlocked:  func(a, b *Goroutine) int { return cmp.Compare(b.Blocked, a.Blocked) },
	BySyscall:  func(a, b *Goroutine) int { return cmp.Compare(b.Syscall, a.Syscall) },
	ByStarts:   func(a, b *Goroutine) int { return cmp.Compare(b.Starts, a.Starts) },
	ByBlocks:   func(a, b *Goroutine) int { return cmp.Compare(b.Blocks, a.Blocks) },
}

// Filter chooses goroutines. The zero value chooses all but the runtime's own.
type Filter struct {
	System   bool                  // the runtime's own too
	HasSite  bool                  // only those of Site
	Site     int                   // a Site.ID
	HasPlace bool                  // only those that are at Place
	Place    int                   // a Place.ID
	State    event.State           // only those in this state; empty means any
	Reason   string                // only those that wait for this reason; empty means any
	MinState time.Duration         // only those that long in their state
	Match    func(*Goroutine) bool // only those for which it is true; nil means all. It must not call the Machine
}

func (f *Filter) match(g *Goroutine, now int64) bool {
	switch {
	case !f.System && g.Origin != nil && g.Origin.System,
		f.HasSite && g.Site != f.Site,
		f.HasPlace && g.Place != f.Place,
		f.State != "" && g.State != f.State,
		f.Reason != "" && g.Reason != f.Reason,
		f.MinState > 0 && g.InState(now) < f.MinState:
		return false
	}
	return f.Match == nil || f.Match(g)
}

// walkChunks is how many chunks of goroutines are read before events may be applied again.
const walkChunks = 32

// Goroutines returns live goroutines, sorted, and how many match the filter. At most limit are returned, 0 means all.
//
// The stream is held up only for short times: with very many goroutines not all are looked at in the same moment.
func (m *Machine) Goroutines(f Filter, by Order, limit int) (list []Goroutine, matched int) {
	order := orders[by]
	if order == nil {
		order = orders[ByID]
	}
	compare := func(a, b *Goroutine) int { return cmp.Or(order(a, b), cmp.Compare(a.ID, b.ID)) }
	var last *Goroutine // goroutines after it cannot be among the first limit
	shorten := func() {
		sort.Slice(list, func(i, j int) bool { return compare(&list[i], &list[j]) < 0 })
		if limit > 0 && len(list) >= limit {
			list = list[:limit]
			last = &list[limit-1]
		}
	}
	var g Goroutine
	for begin, more := 0, true; more; begin += walkChunks {
		more = m.walk(begin, func(id uint64, en *entry) {
			if m.view(id, en, &g); !f.match(&g, m.now) {
				return
			}
			matched++
			if last == nil || compare(&g, last) < 0 {
				list = append(list, g)
			}
		})
		if limit > 0 && len(list) > 2*limit {
			shorten()
		}
	}
	shorten()
	return list, matched
}

// walk visits the live goroutines of some chunks. It reports whether there are more.
func (m *Machine) walk(begin int, see func(uint64, *entry)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	visit := func(id uint64, en *entry) bool {
		see(id, en)
		return true
	}
	for i := range walkChunks {
		if !m.table.Chunk(begin+i, visit) {
			return false
		}
	}
	return true
}
