package census

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
)

// States returns all states of a live goroutine.
func States() []event.State {
	return []event.State{event.StateRunning, event.StateRunnable, event.StateSyscall, event.StateWaiting,
		event.StatePreempted, event.StateCopystack, event.StateLeaked}
}

// A Filter selects goroutines. The zero value selects all goroutines of the program. A goroutine must match all fields
// that are set.
type Filter struct {
	System    bool              // select the goroutines of the runtime as well
	States    []event.State     // the state is one of these
	Reasons   []string          // the wait reason contains one of these, ignoring case
	Func      *regexp.Regexp    // matches the name of a function on the stack, including hidden frames
	CreatedBy *regexp.Regexp    // matches the name of the function that contains the go statement
	Labels    map[string]string // the goroutine has these profiler labels; an empty value matches any value
	MinWait   time.Duration     // the goroutine is known to have been blocked for at least this duration
}

// A Selection is the result of applying a Filter to a snapshot.
type Selection struct {
	Goroutines  []*event.Goroutine // the selected goroutines, in increasing order of their IDs
	System      int                // number of goroutines that were left out because they belong to the runtime
	UnknownWait int                // number of goroutines that were left out because their wait is not known to be MinWait, but may be
}

// Select applies the filter to a snapshot. The result refers to the goroutines of the snapshot.
func (f *Filter) Select(snap *event.Snapshot) Selection {
	var sel Selection
	for i := range snap.Goroutines {
		g := &snap.Goroutines[i]
		switch {
		case g.System && !f.System:
			sel.System++
		case !f.matches(g):
		case f.MinWait > 0 && !g.WaitKnown && waits(g.State) && (g.WaitMax == 0 || g.WaitMax >= f.MinWait):
			sel.UnknownWait++
		case f.MinWait > 0 && (!g.WaitKnown || g.Wait < f.MinWait):
		default:
			sel.Goroutines = append(sel.Goroutines, g)
		}
	}
	return sel
}

// Program returns the goroutines of a snapshot that belong to the program, not to the runtime.
func Program(snap *event.Snapshot) []*event.Goroutine { return (&Filter{}).Select(snap).Goroutines }

// matches applies everything but System and MinWait.
func (f *Filter) matches(g *event.Goroutine) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, g.State) {
		return false
	}
	if len(f.Reasons) > 0 && !slices.ContainsFunc(f.Reasons, func(r string) bool {
		return strings.Contains(strings.ToLower(g.Reason), strings.ToLower(r))
	}) {
		return false
	}
	if f.Func != nil && !slices.ContainsFunc(g.Stack, func(fr event.StackFrame) bool { return f.Func.MatchString(fr.Func) }) {
		return false
	}
	if f.CreatedBy != nil && (g.CreatedBy.IsZero() || !f.CreatedBy.MatchString(g.CreatedBy.Func)) {
		return false
	}
	for k, want := range f.Labels {
		if have, ok := g.Labels[k]; !ok || want != "" && have != want {
			return false
		}
	}
	return true
}

// blocked reports whether a goroutine in this state waits for something inside the program.
func blocked(s event.State) bool { return s == event.StateWaiting || s == event.StateLeaked }

// waits reports whether the runtime notes since when goroutines in this state have been in it.
func waits(s event.State) bool { return blocked(s) || s == event.StateSyscall }
