package census

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
)

// A Comparison is the difference between two snapshots of one process. It leaves out the goroutines of the runtime.
type Comparison struct {
	Interval      time.Duration // time from the first snapshot to the second
	Before, After int           // number of goroutines in the first and the second snapshot
	Populations   []*Population // by decreasing After
}

// A Population is the goroutines that one go statement started for one task.
type Population struct {
	CreatedBy     event.Frame // the go statement; zero for the main goroutine
	Start         event.Frame // the function that the go statement called
	Task          event.Frame // Start, or the function that Start calls if it is a helper like that of sync.WaitGroup.Go
	Before, After int         // number of goroutines in the first and the second snapshot
	Crowds        []*Crowd    // by decreasing After
}

// A Crowd is the part of a population that is at the same place: with the same state, wait reason and stack.
type Crowd struct {
	State  event.State
	Reason string
	Stack  []event.StackFrame // innermost first, without hidden frames

	Before, After int                // number of goroutines in the first and the second snapshot
	Stayed        int                // number of goroutines that, as far as known, stayed here from the first snapshot to the second
	Oldest        time.Duration      // the longest wait in the second snapshot; 0 if unknown
	OldestExact   bool               // Oldest was recorded by the runtime; otherwise it is a lower bound
	Goroutines    []*event.Goroutine // the goroutines of the second snapshot, in increasing order of their IDs
}

// Grown returns the number of goroutines by which the crowd has grown. It is negative if the crowd has shrunk.
func (c *Crowd) Grown() int { return c.After - c.Before }

// Activity returns what the goroutines of the crowd are doing.
func (c *Crowd) Activity() Activity { return ActivityOf(c.State, c.Reason, c.Stack) }

// populationKey and crowdKey are what their goroutines have in common.
type populationKey struct {
	createdBy, start event.Frame
	task             string
}

type crowdKey struct {
	populationKey
	stack  int
	state  event.State
	reason string
}

// sighting is one goroutine in the first snapshot.
type sighting struct {
	g    *event.Goroutine
	key  crowdKey
	seen time.Time
}

// comparer builds a Comparison.
type comparer struct {
	ids         *stackIDs
	populations map[populationKey]*Population
	crowds      map[crowdKey]*Crowd
	result      *Comparison
}

// Compare returns the difference between two snapshots of the same process. The result refers to the goroutines of second.
func Compare(first, second *event.Snapshot) *Comparison {
	c := &comparer{ids: newStackIDs(false), populations: map[populationKey]*Population{}, crowds: map[crowdKey]*Crowd{},
		result: &Comparison{Interval: second.Time.Sub(first.Time)}}
	before := make(map[uint64]sighting, len(first.Goroutines))
	for i := range first.Goroutines {
		g := &first.Goroutines[i]
		if g.System {
			continue
		}
		key := c.key(g)
		before[g.ID] = sighting{g, key, first.Time}
		population, crowd := c.at(key)
		c.result.Before++
		population.Before++
		crowd.Before++
	}
	for i := range second.Goroutines {
		g := &second.Goroutines[i]
		if g.System {
			continue
		}
		key := c.key(g)
		population, crowd := c.at(key)
		c.result.After++
		population.After++
		crowd.After++
		crowd.Goroutines = append(crowd.Goroutines, g)
		stayed := false
		if b, ok := before[g.ID]; ok && b.key == key && b.stayedUntil(g, second.Time) {
			crowd.Stayed++
			stayed = true
		}
		crowd.age(g, stayed, c.result.Interval)
	}
	c.sort()
	return c.result
}

// clockSlack is how far two readings of one moment may lie apart: a snapshot takes a while, and the process's clock and
// ours are read at different times in it.
const clockSlack = 500 * time.Millisecond

// stayedUntil reports whether the goroutine, seen again at the same place, has been there all the time. Other contents of
// its stack show that it has been away. So does a younger or forgotten time since when it waits, because the runtime
// forgets that time as soon as a goroutine runs.
func (s *sighting) stayedUntil(g *event.Goroutine, seen time.Time) bool {
	if !blocked(g.State) || g.RanSince(s.g) {
		return false
	}
	if !s.g.WaitKnown {
		return true
	}
	since := s.seen.Add(-s.g.Wait)
	return g.WaitKnown && seen.Add(-g.Wait).Sub(since) < clockSlack
}

// age takes a goroutine of the second snapshot into account for Oldest.
func (c *Crowd) age(g *event.Goroutine, stayed bool, interval time.Duration) {
	switch {
	case g.WaitKnown && g.Wait > c.Oldest:
		c.Oldest, c.OldestExact = g.Wait, true
	case stayed && interval > c.Oldest:
		c.Oldest, c.OldestExact = interval, false
	}
}

func (c *comparer) key(g *event.Goroutine) crowdKey {
	return crowdKey{populationKey{g.CreatedBy, g.Start, taskOf(g.CreatedBy, g.Start, g.Stack).Func}, c.ids.id(g.Stack), g.State, g.Reason}
}

// at returns the population and the crowd that a key stands for.
func (c *comparer) at(key crowdKey) (*Population, *Crowd) {
	population, ok := c.populations[key.populationKey]
	if !ok {
		population = &Population{CreatedBy: key.createdBy, Start: key.start,
			Task: taskOf(key.createdBy, key.start, c.ids.stacks[key.stack])}
		c.populations[key.populationKey] = population
		c.result.Populations = append(c.result.Populations, population)
	}
	crowd, ok := c.crowds[key]
	if !ok {
		crowd = &Crowd{State: key.state, Reason: key.reason, Stack: c.ids.stacks[key.stack]}
		c.crowds[key] = crowd
		population.Crowds = append(population.Crowds, crowd)
	}
	return population, crowd
}

// sort puts the largest first; what is equally large keeps the order in which the runtime made it.
func (c *comparer) sort() {
	slices.SortStableFunc(c.result.Populations, func(a, b *Population) int { return cmp.Compare(b.After, a.After) })
	for _, p := range c.result.Populations {
		slices.SortStableFunc(p.Crowds, func(a, b *Crowd) int { return cmp.Compare(b.After, a.After) })
	}
}
