package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/term"
)

// Goroutines is a list of goroutines: a snapshot, the selected goroutines, and the format.
type Goroutines struct {
	Info      event.ProcessInfo
	Snapshot  *event.Snapshot
	Selection census.Selection

	Group        bool // group goroutines with the same stack
	HiddenFrames bool // include the frames that a Go traceback omits
	Limit        int  // maximum number of groups or goroutines in the list; 0 means all
}

// Limits on the texts of one group.
const (
	maxIDs      = 8
	maxCreators = 3
	maxLabels   = 6
	maxLabel    = 64 // characters
)

// Text writes the list as text, with headings and frames as in a Go traceback.
func (l *Goroutines) Text(out io.Writer, style term.Style) error {
	w := bufio.NewWriter(out)
	l.header(w, style)
	var notes []string
	if l.Group {
		groups := census.Groups(l.Selection.Goroutines, l.HiddenFrames)
		listed := limited(groups, l.Limit)
		for _, g := range listed {
			fmt.Fprintln(w)
			l.group(w, style, g)
		}
		if rest := groups[len(listed):]; len(rest) > 0 {
			n := 0
			for _, g := range rest {
				n += len(g.Goroutines)
			}
			notes = append(notes, fmt.Sprintf("%s in %s not listed: --limit 0 lists all", english.Count(n, "more goroutine"),
				english.Count(len(rest), "more group")))
		}
	} else {
		listed := limited(l.Selection.Goroutines, l.Limit)
		for _, g := range listed {
			fmt.Fprintln(w)
			l.goroutine(w, style, g)
		}
		if rest := len(l.Selection.Goroutines) - len(listed); rest > 0 {
			notes = append(notes, fmt.Sprintf("%s not listed: --limit 0 lists all", english.Count(rest, "more goroutine")))
		}
	}
	notes = append(notes, l.notes()...)
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", style.Dim(strings.Join(notes, "\n")))
	}
	return w.Flush()
}

// limited returns the first n elements of a list, or all elements if n is 0.
func limited[T any](list []T, n int) []T {
	if n <= 0 || n >= len(list) {
		return list
	}
	return list[:n]
}

// header writes the process, the number of goroutines, and how they were read.
func (l *Goroutines) header(w io.Writer, style term.Style) {
	all := len(l.Snapshot.Goroutines) - l.Selection.System
	listed := len(l.Selection.Goroutines)
	fmt.Fprintf(w, "%s  pid %d, %s\n", style.Bold(term.Escape(programName(l.Info))), l.Snapshot.PID,
		term.Escape(l.Snapshot.GoVersion))
	states := make([]string, 0, 4)
	for _, c := range census.ByState(l.Selection.Goroutines) {
		states = append(states, english.Number(c.N)+" "+term.Escape(string(c.Of)))
	}
	count := english.Count(listed, "goroutine")
	if listed != all {
		count = fmt.Sprintf("%s of %s", english.Number(listed), english.Count(all, "goroutine"))
	}
	if len(states) > 0 {
		count += ": " + strings.Join(states, ", ")
	}
	how := "while the program was running"
	if l.Snapshot.Paused {
		how = "while the program was stopped"
	}
	fmt.Fprintf(w, "%s\n", count)
	fmt.Fprintln(w, style.Dim(fmt.Sprintf("read at %s in %s %s", l.Snapshot.Time.Format("15:04:05.000"),
		Duration(l.Snapshot.Elapsed), how)))
}

// notes writes what is not in the list, and what is uncertain.
func (l *Goroutines) notes() []string {
	var notes []string
	if n := l.Selection.System; n > 0 {
		notes = append(notes, fmt.Sprintf("%s of the Go runtime not listed: --system lists them", english.Count(n, "goroutine")))
	}
	if n := l.Selection.UnknownWait; n > 0 {
		notes = append(notes, fmt.Sprintf("%s excluded by --min-wait: the runtime has not recorded yet when their wait began",
			english.Count(n, "goroutine")))
	}
	if n := l.Snapshot.Incomplete; n > 0 {
		notes = append(notes, fmt.Sprintf("%s incomplete: C code or unknown code on the stack", english.Count(n, "stack")))
	}
	if n := l.Snapshot.Unsettled; n > 0 && !l.Snapshot.Paused {
		notes = append(notes, fmt.Sprintf("%s changed at every attempt to read: use --pause", english.Count(n, "stack")))
	}
	return notes
}

// group writes one group.
func (l *Goroutines) group(w io.Writer, style term.Style, g *census.Group) {
	first, n := g.Goroutines[0], len(g.Goroutines)
	if n == 1 {
		l.goroutine(w, style, first)
		return
	}
	what := []string{stateWords(g.State, event.WaitText(g.Reason, census.RuntimeWork(g.Stack)))}
	if wait := waitWords(g.Wait, n); wait != "" {
		what = append(what, wait)
	}
	locked := 0
	for _, r := range g.Goroutines {
		if r.Locked {
			locked++
		}
	}
	if locked > 0 {
		what = append(what, english.Number(locked)+" locked to their thread")
	}
	heading(w, style, english.Count(n, "goroutine"), what, g.BestEffort)
	frames(w, style, g.Stack, g.Truncated)
	for _, c := range limited(g.CreatedBy, maxCreators) {
		detail, chain := "", ""
		if len(g.CreatedBy) > 1 || c.N != n {
			detail = fmt.Sprintf(" (%s of them)", english.Number(c.N))
		} else if parent := commonParent(g.Goroutines); parent != 0 {
			detail, chain = fmt.Sprintf(" in goroutine %d", parent), l.creators(g.Goroutines[0])
		}
		fmt.Fprintf(w, "created by %s%s\n\t%s\n", style.Name(term.Escape(c.Of.Func)), detail, position(c.Of))
		if chain != "" {
			fmt.Fprintf(w, "\t< %s\n", term.Escape(chain))
		}
	}
	if rest := len(g.CreatedBy) - maxCreators; rest > 0 {
		fmt.Fprintf(w, "created at %s more\n", english.Count(rest, "place"))
	}
	fmt.Fprintln(w, style.Dim("goroutines "+ids(g.Goroutines)))
	if len(g.Labels) > 0 {
		var shown []string
		for _, c := range limited(g.Labels, maxLabels) {
			shown = append(shown, fmt.Sprintf("%s (%s)", labelWords(c.Of.Key, c.Of.Value), english.Number(c.N)))
		}
		fmt.Fprintln(w, style.Dim("labels "+andMore(shown, len(g.Labels))))
	}
}

// creators returns the functions of a goroutine's live creators: "main.serve < main.main".
func (l *Goroutines) creators(g *event.Goroutine) string {
	var names []string
	for _, c := range census.Creators(l.Snapshot, g) {
		if !c.CreatedBy.IsZero() {
			names = append(names, place.ShortFunc(c.CreatedBy.Func))
		}
	}
	return strings.Join(names, " < ")
}

// commonParent returns the ID of the goroutine that has created all others, or 0 if there is no such goroutine.
func commonParent(goroutines []*event.Goroutine) uint64 {
	for _, g := range goroutines {
		if g.Parent != goroutines[0].Parent {
			return 0
		}
	}
	return goroutines[0].Parent
}

// goroutine writes one goroutine in the format of a Go traceback.
func (l *Goroutines) goroutine(w io.Writer, style term.Style, g *event.Goroutine) {
	what := []string{stateWords(g.State, event.WaitText(g.Reason, census.RuntimeWork(g.Stack)))}
	var wait census.Wait
	if g.WaitKnown {
		wait = census.Wait{Known: 1, Min: g.Wait, Max: g.Wait}
	} else {
		wait.Bound = g.WaitMax
	}
	if words := waitWords(wait, 1); words != "" {
		what = append(what, words)
	}
	if g.Locked {
		what = append(what, "locked to thread")
	}
	if g.System {
		what = append(what, "runtime")
	}
	heading(w, style, fmt.Sprintf("goroutine %d", g.ID), what, g.BestEffort)
	stack := g.Stack
	if !l.HiddenFrames {
		stack = census.Visible(stack)
	}
	frames(w, style, stack, g.Truncated)
	if !g.CreatedBy.IsZero() {
		parent := ""
		if g.Parent != 0 {
			parent = fmt.Sprintf(" in goroutine %d", g.Parent)
		}
		fmt.Fprintf(w, "created by %s%s\n\t%s\n", style.Name(term.Escape(g.CreatedBy.Func)), parent, position(g.CreatedBy))
		if chain := l.creators(g); chain != "" {
			fmt.Fprintf(w, "\t< %s\n", term.Escape(chain))
		}
	}
	if len(g.Labels) > 0 {
		var labels []string
		for k, v := range g.Labels {
			labels = append(labels, labelWords(k, v))
		}
		slices.Sort(labels)
		fmt.Fprintln(w, style.Dim("labels "+andMore(limited(labels, maxLabels), len(labels))))
	}
}

// heading writes the first line of a group or goroutine.
func heading(w io.Writer, style term.Style, who string, what []string, bestEffort bool) {
	line := style.Bold(who) + " [" + style.Warn(strings.Join(what, ", ")) + "]"
	if bestEffort {
		line += " (best effort: it was running)"
	}
	fmt.Fprintln(w, line+":")
}

// stateWords returns the state of a goroutine as in a Go traceback: its wait reason if it is waiting.
func stateWords(state event.State, reason string) string {
	switch {
	case reason == "":
		return term.Escape(string(state))
	case state == event.StateLeaked:
		return term.Escape(reason) + " (leaked)"
	default:
		return term.Escape(reason)
	}
}

// frames writes a stack, innermost frame first. A truncated stack has more frames than are known.
func frames(w io.Writer, style term.Style, stack []event.StackFrame, truncated bool) {
	if len(stack) == 0 {
		fmt.Fprintln(w, "\t(its stack could not be read)")
		return
	}
	for i := range stack {
		f := &stack[i]
		fmt.Fprintf(w, "%s\n\t%s\n", style.Name(term.Escape(f.Func)), position(f.Frame))
	}
	if truncated {
		fmt.Fprintln(w, "\t(further frames could not be read)")
	}
}

// position returns the file and line of a frame.
func position(f event.Frame) string {
	if f.File == "" {
		return "(unknown file)"
	}
	return fmt.Sprintf("%s:%d", term.Escape(f.File), f.Line)
}

func labelWords(key, value string) string {
	return term.Clip(term.Escape(key), maxLabel) + "=" + term.Clip(term.Escape(value), maxLabel)
}

// ids lists the IDs of the first goroutines.
func ids(goroutines []*event.Goroutine) string {
	var shown []string
	for _, g := range limited(goroutines, maxIDs) {
		shown = append(shown, fmt.Sprint(g.ID))
	}
	return andMore(shown, len(goroutines))
}
