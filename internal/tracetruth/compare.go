package tracetruth

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Options says how to compare.
type Options struct {
	// Kinds are those that Loupe has observed. Those of event.KindsGoroutine are compared always, system calls, GCBegin and
	// STWBegin when they are among Kinds.
	Kinds event.Kinds
	// Offset bounds the constant between CLOCK_MONOTONIC and Event.Time; zero means that nothing is known of it.
	Offset Bounds
	// Untimed reports differences of times and lengths but lets none of them fail: for an emulated machine, on which what
	// takes a microsecond elsewhere may take milliseconds. Steps and their order are compared as always.
	Untimed bool
	// TimeError bounds, by its own account, how far the observer's times are off; zero means not at all. Only this bound is
	// compared then, and neither medians nor lengths. Offset must be known.
	TimeError time.Duration
}

// Bounds are the least and the greatest value of something, in nanoseconds.
type Bounds struct{ Min, Max int64 }

// slack is how near to the marks Loupe may observe events that the trace has beyond them. The program is idle for longer than
// that on both sides.
const slack = int64(20 * time.Millisecond)

// Compare holds events against a trace that was recorded meanwhile. The events are all of an observation, from its
// begin, which was before that of the trace, to beyond the end of the trace.
func Compare(truth *Trace, events []event.Event, opt Options) *Report {
	r := &Report{
		Release: truth.Release,
		Matched: make(map[event.Kind]int), Reasons: make(map[string]int), Stacks: make(map[event.Kind]*Stacks), Works: make(map[string]int), Rules: make(RuleCounts),
		Times: make(map[event.Kind]Spread), Lengths: make(map[string]Lengths), Moved: truth.Moved,
	}
	seen := canonicalEvents(events, truth.Release, opt.Kinds, r.Rules)
	if seen.lost > 0 {
		r.fail(FailLost, 0, "%d events were lost", seen.lost)
		return r
	}
	c := &comparison{truth: truth, report: r}
	records := truth.canonical(opt.Kinds, r.Rules)
	c.shift = opt.Offset.middle()
	if opt.TimeError == 0 {
		c.shift = c.findShift(records, seen.records, opt.Offset)
	}
	r.Offset = c.shift
	c.timing = newTiming(c.shift)
	c.timing.bound = max(maxDelta, opt.TimeError)
	c.slack = slack + int64(opt.TimeError)
	c.waits, c.reason = c.initialWaits(seen)
	c.compareLanes(
		lanes(records, c.waits, truth.Release),
		lanes(seen.records, seen.waits, truth.Release))
	c.compareInitial(seen)
	c.timing.judge(r, opt)
	return r
}

// comparison is the state of a comparison.
type comparison struct {
	truth  *Trace
	shift  int64           // from CLOCK_MONOTONIC to the times of events
	waits  map[uint64]bool // goroutines that were in a wait that the runtime may end at the start of the trace
	slack  int64           // the constant, plus the error bound of the observer's times
	report *Report
	timing *timing

	// reason has the wait reason of each goroutine's last wait, as observed by Loupe.
	reason map[uint64]string
}

// findShift returns the best constant between the clocks. A goroutine is created once, so its two creation records are
// certainly the same step.
func (c *comparison) findShift(truth, seen []Record, bounds Bounds) int64 {
	if bounds == (Bounds{}) {
		bounds = Bounds{math.MinInt64, math.MaxInt64}
	}
	created := make(map[uint64]int64)
	for i := range truth {
		if truth[i].Kind == event.GoCreate && !truth[i].Moved {
			created[truth[i].G] = truth[i].Time
		}
	}
	var shifts []int64
	for i := range seen {
		if at, ok := created[seen[i].G]; ok && seen[i].Kind == event.GoCreate {
			shifts = append(shifts, seen[i].Time-at)
		}
	}
	if len(shifts) == 0 {
		if bounds.Max == math.MaxInt64 {
			return 0
		}
		return bounds.middle()
	}
	slices.Sort(shifts)
	shift := shifts[len(shifts)/2]
	if shift < bounds.Min || shift > bounds.Max {
		c.report.fail(FailTime, 0, "the times of events are %v off the clock, at least", max(
			time.Duration(bounds.Min-shift), time.Duration(shift-bounds.Max)))
	}
	return shift
}

// initialWaits returns Loupe's data about goroutines whose wait began earlier: whether the runtime may end the wait, of waits
// before the trace, and the reasons, of waits before the first mark.
func (c *comparison) initialWaits(seen *stream) (waits map[uint64]bool, reasons map[uint64]string) {
	waits, reasons = maps.Clone(seen.waits), maps.Clone(seen.reasons)
	for i := range seen.records {
		r := &seen.records[i]
		if r.Kind != event.GoBlock {
			continue
		}
		if r.Time-c.shift < c.truth.start {
			waits[r.G] = mayBeRuntime(r, c.truth.Release)
		}
		if r.Time-c.shift < c.truth.Begin {
			reasons[r.G] = r.Reason
		}
	}
	return waits, reasons
}

// compareLanes compares the lanes of all goroutines.
func (c *comparison) compareLanes(truth, seen map[uint64]lane) {
	ids := make(map[uint64]bool)
	for _, side := range []map[uint64]lane{truth, seen} {
		for g := range side {
			ids[g] = true
		}
	}
	for _, g := range slices.Sorted(maps.Keys(ids)) {
		if n := truth[g].beginsLast(g); n > 0 {
			c.report.Rules[RuleGCBegin] += n
		}
		seen[g].beginsLast(g)
		inside := truth[g].window(c.truth.Begin, c.truth.End)
		c.compareLane(g, inside, seen[g].around(inside, c.truth.Begin+c.shift-c.slack, c.truth.End+c.shift+c.slack), truth[g].after(c.truth.End))
	}
}

// compareLane compares the lane of one goroutine between the marks. seen has the slack on both sides; next is the first record
// of the trace behind the last mark, nil if there is none.
func (c *comparison) compareLane(g uint64, truth, seen lane, next *Record) {
	if len(truth) > 0 {
		c.report.Goroutines++
	}
	at := align(truth, seen, c.shift, c.slack)
	if at.inTruth < len(truth) {
		c.report.fail(FailSequence, g, "during %q\n%s", c.truth.phaseAt(truth[at.inTruth].Time),
			c.excerpt(truth, seen[at.first:], at.inTruth, at.inSeen))
	} else {
		c.compareEdges(g, seen, at, next)
	}
	for _, r := range truth[:at.inTruth] {
		if r.optional {
			c.report.Rules[RuleSyscallStart]++
		}
	}
	var own []pair
	for _, p := range pairs(truth, seen[at.first:]) {
		if p.truth.G == g {
			own = append(own, p)
			c.report.Matched[p.truth.Kind]++
		}
	}
	c.compareFields(own)
	c.timing.add(own)
}

// compareEdges checks that records that Loupe has before and after a lane of the trace are near the marks.
func (c *comparison) compareEdges(g uint64, seen lane, at place, next *Record) {
	last := at.first + at.inSeen
	for i, r := range seen {
		if i >= at.first && i < last {
			continue
		}
		mono := r.Time - c.shift
		if i == last && next != nil && same(next, r) { // the thread lost its processor between the two looks at the clock
			c.report.Rules[RuleEdge]++
			continue
		}
		if mono > c.truth.Begin+c.slack && mono < c.truth.End-c.slack {
			c.report.fail(FailSequence, g, "during %q, not in the trace\n%s", c.truth.phaseAt(mono), c.excerpt(nil, seen, 0, i))
			return
		}
		c.report.Rules[RuleEdge]++
	}
}

// compareFields compares the fields of each step of one goroutine.
func (c *comparison) compareFields(own []pair) {
	var wait *Record // the previous block in the trace; nil if it began earlier
	for i, p := range own {
		switch {
		case p.seen.Kind == event.GoBlock:
			c.reason[p.seen.G] = p.seen.Reason
		case p.seen.Waiting:
			c.reason[p.seen.G] = waitCoroutine
		}
		if wrong := c.compareStack(p); wrong != "" {
			c.failPair(FailStack, own, i, wrong)
		}
		switch p.truth.Kind {
		case event.GoCreate:
			c.compareCreate(p)
		case event.GoStop, event.STWBegin:
			if p.truth.TraceReason != p.seen.TraceReason {
				c.failPair(FailReason, own, i, fmt.Sprintf("it is for %q, not %q", p.truth.TraceReason, p.seen.TraceReason))
			}
		case event.GoBlock:
			wait = p.truth
			if wrong := c.compareReason(p); wrong != "" {
				c.failPair(FailReason, own, i, wrong)
			}
			c.report.Reasons[p.seen.Reason]++
			if wrong := c.compareWork(p); wrong != "" {
				c.failPair(FailReason, own, i, wrong)
			}
		case event.GoUnblock:
			if p.truth.By != p.seen.By && !c.isRuntimeWake(p, wait) {
				c.failPair(FailWaker, own, i, fmt.Sprintf("woken by %d, not %d", p.truth.By, p.seen.By))
			}
		}
	}
}

func (c *comparison) compareCreate(p pair) {
	g := p.truth.G
	if p.truth.By != p.seen.By {
		c.report.fail(FailParent, g, "%s was created by %d, not %d", p.truth.Start, p.truth.By, p.seen.By)
	}
	if p.truth.Start != p.seen.Start {
		c.report.fail(FailStart, g, "it starts %q, not %q", p.truth.Start, p.seen.Start)
	}
	if p.truth.Waiting != p.seen.Waiting {
		c.report.fail(FailState, g, "%s: created waiting %v, not %v", p.truth.Start, p.truth.Waiting, p.seen.Waiting)
	}
}

// compareReason returns the difference in the reason of a wait; empty if there is none.
func (c *comparison) compareReason(p pair) string {
	release := c.truth.Release
	if p.truth.Switch != p.seen.Switch {
		return fmt.Sprintf("the wait for a coroutine: %v, not %v", p.truth.Switch, p.seen.Switch)
	}
	if p.truth.Switch {
		c.report.Rules[RuleSwitchReason]++
		if p.seen.TraceReason != "" {
			return fmt.Sprintf("a coroutine switch has no reason for the tracer, and not %q", p.seen.TraceReason)
		}
		return ""
	}
	want, ok := traceReason(p.seen.Reason, release)
	if !ok {
		return fmt.Sprintf("no wait of the runtime has the reason %q", p.seen.Reason)
	}
	if want != p.truth.TraceReason {
		return fmt.Sprintf("the wait reason %q has the tracer's reason %q, which is %q", p.seen.Reason, want, p.truth.TraceReason)
	}
	if exact := waitAt(p.truth, release); exact != "" && exact != p.seen.Reason {
		return fmt.Sprintf("the wait reason there is %q, not %q", exact, p.seen.Reason)
	}
	if release < minorTraceV2 {
		c.report.Rules[RuleNoTraceReason]++
		want = ""
	}
	if p.seen.TraceReason != want {
		return fmt.Sprintf("the tracer's reason is %q, not %q", want, p.seen.TraceReason)
	}
	return ""
}

// isRuntimeWake reports whether the tracer names a goroutine for a wake by the runtime, or no goroutine for a wake that a
// goroutine did in the runtime.
func (c *comparison) isRuntimeWake(p pair, wait *Record) bool {
	may := c.waits[p.truth.G]
	if wait != nil {
		may = mayBeRuntime(wait, c.truth.Release)
	}
	if p.truth.By == 0 && c.isResizeWake(p) {
		c.report.Rules[RuleRuntimeWaker]++
		return true
	}
	if p.seen.By != 0 || !may {
		return false
	}
	if len(p.truth.Stack) > 0 && !isRuntime(p.truth.Stack[0].Func) {
		return false
	}
	c.report.Rules[RuleRuntimeWaker]++
	return true
}

// isResizeWake reports whether a worker of the garbage collector was woken, to end, by the goroutine that called GOMAXPROCS,
// which the stack shows. Go 1.12 writes this wake to the trace without a waker.
func (c *comparison) isResizeWake(p pair) bool {
	return c.truth.Release < 13 && len(p.seen.Stack) > 0 && p.seen.Stack[0].Func == "runtime.GOMAXPROCS"
}

// failPair reports a difference in a field of a step.
func (c *comparison) failPair(what string, own []pair, at int, text string) {
	var truth, seen lane
	for _, p := range own {
		truth, seen = append(truth, p.truth), append(seen, p.seen)
	}
	c.report.fail(what, own[at].truth.G, "%s, during %q\n%s", text, c.truth.phaseAt(own[at].truth.Time), c.excerpt(truth, seen, at, at))
}

// compareInitial checks the goroutines that were alive at the start of the trace: Loupe must know them, because it
// attached earlier.
func (c *comparison) compareInitial(seen *stream) {
	known := make(map[uint64]bool)
	for g := range seen.waits {
		known[g] = true
	}
	for i := range seen.records {
		if seen.records[i].Kind == event.GoCreate {
			known[seen.records[i].G] = true
		}
	}
	for _, g := range slices.Sorted(maps.Keys(c.truth.initial)) {
		if !known[g] {
			c.report.fail(FailState, g, "it was %s when the trace began, and unknown to Loupe", c.truth.initial[g])
		}
	}
}
