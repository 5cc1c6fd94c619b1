package target

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// Goroutines that wait for another goroutine look leaked if more and more of them wait, and those that waited before have not run since: the
// rule of package census, without stacks.
const (
	minGrowth   = 2                // goroutines
	stayedPart  = 0.9              // of those that waited before
	leakAfter   = 30 * time.Second // between the censuses that are compared
	leakMembers = 1 << 20          // goroutines that are remembered for comparison, 16 bytes each
)

// A leakFinder compares censuses of a process.
type leakFinder struct {
	at     time.Time
	before map[waitKey][]event.Member // sorted by ID
	cut    bool                       // there were too many goroutines to remember

	suspects map[string]int // goroutines that look leaked, by site
}

type waitKey struct{ site, reason string }

// add compares a census with an earlier one.
func (f *leakFinder) add(c *census) {
	if f.before != nil && c.at.Sub(f.at) < leakAfter {
		return
	}
	now, n := map[waitKey][]event.Member{}, 0
	certain := map[string]int{}
	for i := range c.groups {
		g := &c.groups[i]
		switch {
		case g.State == event.StateLeaked:
			certain[siteOf(&g.Origin)] += len(g.Members)
		case g.State == event.StateWaiting && endedByGoroutine(g.Reason):
			key := waitKey{siteOf(&g.Origin), g.Reason}
			now[key] = append(now[key], g.Members...)
			n += len(g.Members)
		}
	}
	f.suspects = certain
	if f.cut = n > leakMembers; f.cut {
		f.before, f.at = nil, c.at
		return
	}
	for key, members := range now {
		slices.SortFunc(members, func(a, b event.Member) int { return cmp.Compare(a.ID, b.ID) })
		if before := f.before[key]; len(before) > 0 && pilesUp(before, members) {
			f.suspects[key.site] += len(members)
		}
	}
	f.before, f.at = now, c.at
}

// pilesUp reports whether goroutines have joined those of before, and nearly all of those have not run.
func pilesUp(before, now []event.Member) bool {
	if len(now)-len(before) < minGrowth {
		return false
	}
	stayed := 0
	for i, j := 0, 0; i < len(before) && j < len(now); {
		switch {
		case before[i].ID < now[j].ID:
			i++
		case before[i].ID > now[j].ID:
			j++
		default:
			if before[i].Stops == now[j].Stops {
				stayed++
			}
			i++
			j++
		}
	}
	return float64(stayed) >= stayedPart*float64(len(before))
}

// endedByGoroutine reports whether only another goroutine can end a wait.
func endedByGoroutine(reason string) bool {
	switch gostate.WaitOf(reason) {
	case gostate.WaitLock, gostate.WaitSemaphore, gostate.WaitSync, gostate.WaitSend, gostate.WaitReceive, gostate.WaitSelect:
		return true
	}
	return false
}
