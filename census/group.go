package census

import (
	"cmp"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
)

// A Group is a set of goroutines with the same state, wait reason and stack.
type Group struct {
	State      event.State
	Reason     string
	BestEffort bool               // as in event.Goroutine
	Truncated  bool               // as in event.Goroutine
	Stack      []event.StackFrame // innermost first

	Goroutines []*event.Goroutine // in increasing order of their IDs; never empty
	Wait       Wait
	CreatedBy  []Count[event.Frame] // the go statements, most frequent first
	Labels     []Count[Label]       // the profiler labels, most frequent first
}

// A Wait summarizes for how long the goroutines of a group have been blocked.
type Wait struct {
	Known    int           // number of goroutines whose wait is known
	Min, Max time.Duration // the shortest and the longest known wait
	Bound    time.Duration // upper bound of the unknown waits; 0 if there is none
}

// A Label is a profiler label.
type Label struct{ Key, Value string }

// A Count is a property and the number of goroutines that have it.
type Count[T any] struct {
	Of T
	N  int
}

// groupKey is what the goroutines of one group have in common.
type groupKey struct {
	stack      int
	state      event.State
	reason     string
	bestEffort bool
	truncated  bool
}

// Groups groups goroutines by state, wait reason and stack. If hiddenFrames is set, the stacks include the frames that a
// Go traceback omits. The groups are sorted by the longest known wait, then by the upper bound of the waits, then by the
// number of goroutines, in decreasing order.
func Groups(goroutines []*event.Goroutine, hiddenFrames bool) []*Group {
	ids := newStackIDs(hiddenFrames)
	index := map[groupKey]*Group{}
	var groups []*Group
	for _, g := range goroutines {
		key := groupKey{ids.id(g.Stack), g.State, g.Reason, g.BestEffort, g.Truncated}
		group, ok := index[key]
		if !ok {
			group = &Group{State: g.State, Reason: g.Reason, BestEffort: g.BestEffort, Truncated: g.Truncated,
				Stack: ids.stacks[key.stack]}
			index[key] = group
			groups = append(groups, group)
		}
		group.Goroutines = append(group.Goroutines, g)
	}
	for _, g := range groups {
		g.summarise()
	}
	slices.SortStableFunc(groups, func(a, b *Group) int {
		return cmp.Or(
			cmp.Compare(b.Wait.Max, a.Wait.Max),
			cmp.Compare(b.Wait.Bound, a.Wait.Bound),
			cmp.Compare(len(b.Goroutines), len(a.Goroutines)),
			cmp.Compare(a.Goroutines[0].ID, b.Goroutines[0].ID))
	})
	return groups
}

// summarise fills in what is said of a group's goroutines as a whole.
func (g *Group) summarise() {
	creators := map[event.Frame]int{}
	labels := map[Label]int{}
	for _, r := range g.Goroutines {
		g.Wait.add(r)
		if !r.CreatedBy.IsZero() {
			creators[r.CreatedBy]++
		}
		for k, v := range r.Labels {
			labels[Label{k, v}]++
		}
	}
	g.CreatedBy = commonestFirst(creators, func(a, b event.Frame) int {
		return cmp.Or(cmp.Compare(a.Func, b.Func), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	g.Labels = commonestFirst(labels, func(a, b Label) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
}

// add takes one more goroutine into account.
func (w *Wait) add(g *event.Goroutine) {
	switch {
	case g.WaitKnown:
		if w.Known == 0 || g.Wait < w.Min {
			w.Min = g.Wait
		}
		w.Max = max(w.Max, g.Wait)
		w.Known++
	case waits(g.State):
		w.Bound = max(w.Bound, g.WaitMax)
	}
}

// commonestFirst turns a tally into a list; order decides between equals.
func commonestFirst[T comparable](tally map[T]int, order func(a, b T) int) []Count[T] {
	list := make([]Count[T], 0, len(tally))
	for of, n := range tally {
		list = append(list, Count[T]{of, n})
	}
	slices.SortFunc(list, func(a, b Count[T]) int { return cmp.Or(cmp.Compare(b.N, a.N), order(a.Of, b.Of)) })
	return list
}

// ByState counts goroutines by their state. The most frequent state is first.
func ByState(goroutines []*event.Goroutine) []Count[event.State] {
	tally := map[event.State]int{}
	for _, g := range goroutines {
		tally[g.State]++
	}
	return commonestFirst(tally, func(a, b event.State) int { return cmp.Compare(a, b) })
}
