package census

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
)

// States lists the states that a goroutine can be filtered by.
func States() []event.State {
	return []event.State{event.StateRunning, event.StateRunnable, event.StateSyscall, event.StateWaiting,
		event.StatePreempted, event.StateCopystack, event.StateLeaked}
}

// Filter selects goroutines. Its zero value selects those of the program and leaves out the runtime's own; every field
// that is set narrows the selection.
type Filter struct {
	System    bool              // the runtime's own goroutines too
	States    []event.State     // any of them
	Reasons   []string          // the wait reason contains one of them, letter case ignored
	Func      *regexp.Regexp    // matches the function name of any frame, hidden ones included
	CreatedBy *regexp.Regexp    // matches the function that holds the go statement
	Labels    map[string]string // has all of them; an empty value asks for the key alone
	MinWait   time.Duration     // has been blocked at least so long, for all that is known
}

// Selection is what a Filter finds in a snapshot.
type Selection struct {
	Goroutines  []*goproc.Goroutine // in order of their ID
	System      int                 // goroutines of the runtime that were left out
	UnknownWait int                 // left out by MinWait alone, though their wait may have been long enough
}

// Select applies the filter to a snapshot.
func (f *Filter) Select(snap *goproc.Snapshot) Selection {
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
func Program(snap *goproc.Snapshot) []*goproc.Goroutine { return (&Filter{}).Select(snap).Goroutines }

// matches applies everything but System and MinWait.
func (f *Filter) matches(g *goproc.Goroutine) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, g.State) {
		return false
	}
	if len(f.Reasons) > 0 && !slices.ContainsFunc(f.Reasons, func(r string) bool {
		return strings.Contains(strings.ToLower(g.Reason), strings.ToLower(r))
	}) {
		return false
	}
	if f.Func != nil && !slices.ContainsFunc(g.Stack, func(fr goproc.Frame) bool { return f.Func.MatchString(fr.Func) }) {
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
