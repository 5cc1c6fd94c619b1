package sched

import (
	"cmp"
	"sort"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// A Goroutine is a live goroutine, at the current time of the [Machine]. Times of events are in nanoseconds since the Unix
// epoch.
type Goroutine struct {
	ID     uint64 // the runtime's ID of the goroutine; never 0
	Parent uint64 // ID of the goroutine that created it; 0 if unknown

	Site          int           // the Site.ID of its origin
	Origin        *event.Origin // nil if unknown
	CreationStack *event.Stack  // stack of its creator; nil if it was not recorded
	Created       int64         // time of its GoCreate; 0 if that was not observed
	Seen          int64         // time of its first event
	Found         bool          // its first event was neither GoCreate nor GoStatus: earlier events are missing

	State     event.State // empty if unknown
	Reason    string      // wait reason if it waits, or stop reason if it was stopped and is runnable; see Place.Reason
	Since     int64       // time at which it entered State, which can be before Seen
	Uncertain bool        // events have been lost since its last event
	Repairs   uint32      // number of events that contradicted its known state, at most 65,535

	// The time in each state since Seen. The sum is the time from Seen to the current time of the Machine.
	Running  time.Duration // running, including the time that its thread waited for a processor
	Runnable time.Duration // runnable, waiting for a P
	Blocked  time.Duration // waiting
	Syscall  time.Duration // in system calls or C code
	InDoubt  time.Duration // in an unknown or uncertain state

	Starts uint64 // number of times that it started to run since Seen
	Blocks uint64 // number of times that it started to wait since Seen

	Woken     bool         // its last GoUnblock was observed; otherwise Waker and WakeStack are zero
	Waker     uint64       // ID of the goroutine that last unblocked it; 0 for the scheduler, see event.Event.By
	WakeStack *event.Stack // stack of the goroutine that last unblocked it; nil if it was not recorded

	Stack *event.Stack // its last known stack; nil if it was not recorded
	Place int          // the Place.ID of Stack
}

// InState returns the time from g.Since to now, which is in nanoseconds since the Unix epoch. It returns 0 if now is earlier.
func (g *Goroutine) InState(now int64) time.Duration { return time.Duration(max(now-g.Since, 0)) }

// Goroutine returns the live goroutine with the given ID. The result is false if there is no such goroutine.
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

// view copies an entry to g.
func (m *Machine) view(id uint64, en *entry, g *Goroutine) {
	s, p := m.sites.at(en.site), m.places.at(en.place)
	*g = Goroutine{
		ID: id, Parent: en.parent,
		Site: int(s.origin), Origin: m.origins[s.origin], CreationStack: publicStack(s.stack), Seen: en.seen,
		Found: en.flags&flagFound != 0,
		State: en.state.Name(), Since: en.since, Uncertain: en.epoch != m.epoch, Repairs: uint32(en.repairs),
		Running: time.Duration(en.spent[gostate.Running-1]), Runnable: time.Duration(en.spent[gostate.Runnable-1]),
		Blocked: time.Duration(en.spent[gostate.Waiting-1]), Syscall: time.Duration(en.spent[gostate.Syscall-1]),
		InDoubt: time.Duration(en.uncertain()),
		Starts:  en.starts, Blocks: en.blocks,
		Stack: publicStack(p.stack), Place: int(en.place),
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
		g.WakeStack = publicStack(m.places.at(en.wake).stack)
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

// An Order is a sort order of goroutines.
type Order int

// The sort orders of goroutines.
const (
	ByID       Order = iota // ascending ID
	ByOldest                // ascending Goroutine.Since: the longest in its current state first
	ByNewest                // descending ID
	ByRunning               // descending Goroutine.Running
	ByRunnable              // descending Goroutine.Runnable
	ByBlocked               // descending Goroutine.Blocked
	BySyscall               // descending Goroutine.Syscall
	ByStarts                // descending Goroutine.Starts
	ByBlocks                // descending Goroutine.Blocks
)

// orders has a comparison function for each order except ByID.
var orders = [...]func(a, b *Goroutine) int{
	ByOldest:   func(a, b *Goroutine) int { return cmp.Compare(a.Since, b.Since) },
	ByNewest:   func(a, b *Goroutine) int { return cmp.Compare(b.ID, a.ID) },
	ByRunning:  func(a, b *Goroutine) int { return cmp.Compare(b.Running, a.Running) },
	ByRunnable: func(a, b *Goroutine) int { return cmp.Compare(b.Runnable, a.Runnable) },
	ByBlocked:  func(a, b *Goroutine) int { return cmp.Compare(b.Blocked, a.Blocked) },
	BySyscall:  func(a, b *Goroutine) int { return cmp.Compare(b.Syscall, a.Syscall) },
	ByStarts:   func(a, b *Goroutine) int { return cmp.Compare(b.Starts, a.Starts) },
	ByBlocks:   func(a, b *Goroutine) int { return cmp.Compare(b.Blocks, a.Blocks) },
}

// Compare returns a negative number if a is before b in the order, a positive number if it is after b, and 0 if they have the
// same ID. Goroutines that are otherwise equal are in ascending order of their IDs. An Order that is not one of the
// constants is equivalent to ByID.
func (o Order) Compare(a, b *Goroutine) int {
	if o > ByID && int(o) < len(orders) {
		return cmp.Or(orders[o](a, b), cmp.Compare(a.ID, b.ID))
	}
	return cmp.Compare(a.ID, b.ID)
}

// A Filter selects goroutines. A goroutine matches if all conditions hold. The zero value selects all goroutines except those
// of the runtime itself.
type Filter struct {
	System   bool          // include the goroutines that belong to the runtime itself
	HasSite  bool          // Goroutine.Site must be Site
	Site     int           // a Site.ID
	HasPlace bool          // Goroutine.Place must be Place
	Place    int           // a Place.ID
	State    event.State   // Goroutine.State must be this state; empty means any
	Reason   string        // Goroutine.Reason must be this reason, a wait or stop reason; empty means any
	MinState time.Duration // minimum time in the current state; 0 means no minimum

	// Match must return true for the goroutine. Nil means that all goroutines match. Match must not retain its argument. It
	// must not call methods of the Machine, which is locked.
	Match func(*Goroutine) bool
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

// walkChunks is the number of chunks of the table that walk visits while it holds the lock.
const walkChunks = 32

// Goroutines returns the first limit of the live goroutines that match the filter, in the given order, and the number of
// goroutines that match. A limit of 0 means no limit.
//
// If there are many goroutines, Goroutines reads them in parts, and events can be applied in between. The result is then not
// a snapshot of one moment.
func (m *Machine) Goroutines(f Filter, by Order, limit int) (list []Goroutine, matched int) {
	var last *Goroutine // goroutines after last are not among the first limit
	shorten := func() {
		sort.Slice(list, func(i, j int) bool { return by.Compare(&list[i], &list[j]) < 0 })
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
			if last == nil || by.Compare(&g, last) < 0 {
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

// walk calls fn for the live goroutines in walkChunks chunks of the table. It reports whether there are further chunks.
func (m *Machine) walk(begin int, fn func(uint64, *entry)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	visit := func(id uint64, en *entry) bool {
		fn(id, en)
		return true
	}
	for i := range walkChunks {
		if !m.table.Chunk(begin+i, visit) {
			return false
		}
	}
	return true
}
