package tracetruth

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// What can be wrong with a stream of events.
const (
	FailSequence = "sequence" // something is missing, too much, or in the wrong order
	FailParent   = "parent"
	FailWaker    = "waker"
	FailReason   = "reason" // a wait or stop reason
	FailStart    = "start function"
	FailStack    = "stack"
	FailState    = "state" // at the begin of the observation, or of a new goroutine
	FailTime     = "time"
	FailLength   = "length" // of waits or runs
	FailLost     = "lost events"
)

// A Failure is a difference that no rule explains.
type Failure struct {
	What string // one of the Fail constants
	G    uint64 // the goroutine; 0 when it is about all
	Text string // of several lines
}

// A Report is the result of a comparison.
type Report struct {
	Release    int                // minor release of Go whose tracer made the trace
	Goroutines int                // that did something between the marks
	Matched    map[event.Kind]int // records that both observers have
	Reasons    map[string]int     // matched blocks by wait reason
	Stacks     map[event.Kind]*Stacks
	Works      map[string]int // matched blocks by what they wait for on behalf of the runtime (event.RuntimeWork)
	Rules      RuleCounts
	Offset     int64 // from CLOCK_MONOTONIC to Event.Time, in nanoseconds
	Times      map[event.Kind]Spread
	Lengths    map[string]Lengths // of runs, waits and latencies
	Moved      Moved              // times of the trace that were not compared
	Failures   []Failure
}

// Stacks says how the stacks of the matched records of a kind were compared.
type Stacks struct {
	Equal   int        // both have the same frames
	Excused RuleCounts // the difference is explained
	None    int        // neither has one
}

// Compared returns how many stacks both observers have.
func (s *Stacks) Compared() int {
	n := s.Equal
	for rule, count := range s.Excused {
		if rule != RuleNoStack && rule != RuleGoStatement {
			n += count
		}
	}
	return n
}

// stacks returns the counts of a kind.
func (r *Report) stacks(k event.Kind) *Stacks {
	if r.Stacks[k] == nil {
		r.Stacks[k] = &Stacks{Excused: make(RuleCounts)}
	}
	return r.Stacks[k]
}

// OK reports whether there is no difference that no rule explains.
func (r *Report) OK() bool { return len(r.Failures) == 0 }

// Failed returns how many failures are of a sort.
func (r *Report) Failed(what string) int {
	n := 0
	for _, f := range r.Failures {
		if f.What == what {
			n++
		}
	}
	return n
}

func (r *Report) fail(what string, g uint64, format string, args ...any) {
	r.Failures = append(r.Failures, Failure{what, g, fmt.Sprintf(format, args...)})
}

// shownFailures is how many failures of each sort the text of a report contains in full.
const shownFailures = 3

// String returns the report as text: what was compared, the rules used, and the failures.
func (r *Report) String() string {
	var b strings.Builder
	total := 0
	for _, n := range r.Matched {
		total += n
	}
	fmt.Fprintf(&b, "%d goroutines, %d events alike:", r.Goroutines, total)
	for _, k := range slices.Sorted(maps.Keys(r.Matched)) {
		fmt.Fprintf(&b, " %v %d", k, r.Matched[k])
	}
	fmt.Fprintf(&b, "\nwaits:")
	for _, reason := range slices.Sorted(maps.Keys(r.Reasons)) {
		fmt.Fprintf(&b, " %q %d", reason, r.Reasons[reason])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Stacks)) {
		s := r.Stacks[k]
		fmt.Fprintf(&b, "\nstacks of %v: %d compared, %d equal, %d without one; excused: %v", k, s.Compared(), s.Equal, s.None, s.Excused)
	}
	b.WriteString("\nfor the runtime:")
	for _, work := range slices.Sorted(maps.Keys(r.Works)) {
		fmt.Fprintf(&b, " %q %d", work, r.Works[work])
	}
	fmt.Fprintf(&b, "\nrules: %v\ntimes:", r.Rules)
	for _, k := range slices.Sorted(maps.Keys(r.Times)) {
		fmt.Fprintf(&b, " %v %v", k, r.Times[k])
	}
	b.WriteString("\nlengths:")
	for _, name := range slices.Sorted(maps.Keys(r.Lengths)) {
		fmt.Fprintf(&b, " %s %v", name, r.Lengths[name])
	}
	fmt.Fprintf(&b, "\nmoved by the reader of the trace, and not compared: the times of %d events, of marks among them by up to %v\n",
		r.Moved.Events, r.Moved.By)
	shown := make(map[string]int)
	for _, f := range r.Failures {
		if shown[f.What]++; shown[f.What] <= shownFailures {
			fmt.Fprintf(&b, "\nwrong %s, goroutine %d: %s\n", f.What, f.G, strings.TrimRight(f.Text, "\n"))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(shown)) {
		if n := shown[what] - shownFailures; n > 0 {
			fmt.Fprintf(&b, "\nwrong %s: %d more\n", what, n)
		}
	}
	return b.String()
}

// excerptBefore and excerptAfter are how many records around a difference are shown.
const (
	excerptBefore = 6
	excerptAfter  = 6
)

// excerpt prints two lanes side by side around the position at which they differ, which has an index in each.
func (c *comparison) excerpt(truth, seen lane, inTruth, inSeen int) string {
	var b strings.Builder
	row := func(mark, t, s string) { fmt.Fprintf(&b, "%s %-72s | %s\n", mark, t, s) }
	row(" ", "µs since the first mark: the trace", "Loupe")
	for d := -excerptBefore; d < excerptAfter; d++ {
		var t, s string
		if i := inTruth + d; i >= 0 && i < len(truth) {
			t = c.line(truth[i], truth[i].Time)
		}
		if i := inSeen + d; i >= 0 && i < len(seen) {
			s = c.line(seen[i], seen[i].Time-c.shift)
		}
		switch {
		case d == 0:
			row(">", t, s)
		case t != "" || s != "":
			row(" ", t, s)
		}
	}
	var where []string
	if inTruth < len(truth) && len(truth[inTruth].Stack) > 0 {
		where = append(where, "the trace at "+truth[inTruth].place())
	}
	if inSeen < len(seen) && len(seen[inSeen].Stack) > 0 {
		where = append(where, "Loupe at "+seen[inSeen].place())
	}
	if len(where) > 0 {
		fmt.Fprintf(&b, "  %s\n", strings.Join(where, "; "))
	}
	return b.String()
}

// line returns a record for an excerpt.
func (c *comparison) line(r *Record, mono int64) string {
	return fmt.Sprintf("%10.1f %v", float64(mono-c.truth.Begin)/1e3, r)
}
