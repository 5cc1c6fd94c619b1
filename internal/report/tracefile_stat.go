package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/tracefile"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/trace/raw"
)

// TraceSummary writes the summary of a trace file as text. Lines of the list of events are wrapped at width columns; 0
// means no limit.
func TraceSummary(out io.Writer, style term.Style, width int, s *tracefile.Summary) error {
	w := bufio.NewWriter(out)
	t := &traceText{w: w, style: style, width: width}
	t.head(s)
	t.groups(s)
	t.blockers(s)
	t.latency(&s.Latency)
	t.runtime(s)
	t.kinds(&s.Totals)
	return w.Flush()
}

// traceText writes a summary.
type traceText struct {
	w     *bufio.Writer
	style term.Style
	width int
}

func (t *traceText) line(format string, args ...any) {
	fmt.Fprintf(t.w, format+"\n", args...)
}

func (t *traceText) title(text, rest string) {
	t.line("\n%s%s", t.style.Bold(text), rest)
}

// formatReleases lists the releases whose programs write a format.
var formatReleases = map[raw.Version]string{
	raw.Go111: "Go 1.11 to 1.18", raw.Go119: "Go 1.19 and 1.20", raw.Go121: "Go 1.21", raw.Go122: "Go 1.22",
	raw.Go123: "Go 1.23 and 1.24", raw.Go125: "Go 1.25", raw.Go126: "Go 1.26 and 1.27",
}

func (t *traceText) head(s *tracefile.Summary) {
	t.line("%s  %s, a trace in the format of %s", t.style.Bold("loupe"), term.Escape(s.Name), formatReleases[s.Trace.Version])
	lost := "none lost"
	if s.Totals.Lost > 0 || s.Totals.Losses > 0 {
		lost = t.style.Bad(english.Number(s.Totals.Lost) + " lost")
	}
	parts := []string{ShortTime(s.Length())}
	if s.Wall {
		parts[0] += " from " + time.Unix(0, s.First).UTC().Format(time.RFC3339Nano)
	}
	parts = append(parts, english.Count(s.Totals.Events, "event"), lost)
	if !s.Trace.Version.V1() {
		parts = append(parts, english.Count(s.Trace.Generations, "generation"))
	}
	t.line("%s", strings.Join(append(parts, english.Size(s.Bytes)), ", "))
	f := &s.Totals.Flow
	t.line("%s: %s at the start, %s created, %s ended, %s alive at the end", english.Count(int(f.AtStart+f.Found)+int(f.Created), "goroutine"),
		english.Number(int(f.AtStart+f.Found)), english.Number(f.Created), english.Number(f.Ended), english.Number(f.Live))
	if s.Totals.Untracked > 0 {
		t.line("%s", t.style.Warn(english.Count(s.Totals.Untracked, "event")+" not counted: too many goroutines to track"))
	}
}

// groupTitles describe the grouping of goroutines.
var groupTitles = map[tracefile.By]string{
	tracefile.ByStart:   " by the function that they start with",
	tracefile.ByCreator: " by the go statement that created them",
	tracefile.ByNone:    " one by one",
}

var orderWords = map[tracefile.Order]string{
	tracefile.OrderRunning: "time running", tracefile.OrderRunnable: "time runnable", tracefile.OrderBlocked: "time blocked",
	tracefile.OrderSyscall: "time in system calls", tracefile.OrderLifetime: "time alive", tracefile.OrderCount: "goroutines",
}

func (t *traceText) groups(s *tracefile.Summary) {
	t.title("GOROUTINES", groupTitles[s.Options.By]+", most "+orderWords[s.Options.Order]+" first")
	for _, gr := range s.Groups {
		t.line("")
		t.group(gr, t.style.Name(term.Escape(groupName(gr))))
	}
	if s.Rest != nil {
		t.line("")
		name := "others"
		if s.Rest.Others > 0 {
			what := "group"
			if s.Options.By == tracefile.ByNone {
				what = "goroutine"
			}
			name = english.Count(s.Rest.Others, "more "+what) + " (--top 0 shows all)"
		}
		t.group(s.Rest, name)
	}
	if s.Hidden > 0 {
		t.line("\n%s of the Go runtime not counted here: --system counts them", english.Count(s.Hidden, "goroutine"))
	}
}

// groupName returns the name of a group of goroutines.
func groupName(gr *tracefile.Group) string {
	name := place.ShortFunc(gr.Frame.Func)
	if gr.Frame.IsZero() {
		name = "(unknown function)"
	}
	switch gr.By {
	case tracefile.ByNone:
		return "g " + strconv.FormatUint(gr.G, 10) + "  " + name
	case tracefile.ByCreator:
		if gr.Frame.IsZero() {
			return "(created before the trace began, or creator unknown)"
		}
		return name + " " + path.Base(gr.Frame.File) + ":" + strconv.Itoa(gr.Frame.Line)
	}
	return name
}

// spreadColumns are the columns of a group.
const spreadColumns = "%-26s%8s%8s%8s%8s%8s%8s%8s"

// group writes the times of a group.
func (t *traceText) group(gr *tracefile.Group, name string) {
	what := english.Count(gr.Count, "goroutine")
	if gr.By == tracefile.ByNone && gr.Others == 0 {
		what = "alive at the end"
		if gr.Ended > 0 {
			what = "ended"
		}
	} else if gr.Ended > 0 {
		what += ", " + english.Number(gr.Ended) + " ended"
	}
	t.line("%s  %s", name, what)
	if gr.Count > 1 {
		t.line("%s", t.style.Dim(fmt.Sprintf(spreadColumns, "  time", "total", "min", "mean", "p50", "p90", "p99", "max")))
	}
	t.spread("  running", &gr.Running)
	t.spread("  runnable", &gr.Runnable)
	t.spread("  blocked", &gr.Blocked)
	for i := range gr.Reasons {
		r := &gr.Reasons[i]
		t.spread("    "+term.Escape(cmp.Or(r.Name, "(unknown reason)")), &r.Spread)
	}
	t.spread("  in system calls", &gr.Syscall)
	t.spread("  alive", &gr.Lifetime)
	if d := gr.Uncertain.Duration(); d > 0 {
		t.line("  %s in unknown states, because events were lost", ShortTime(d))
	}
}

func (t *traceText) spread(name string, s *tracefile.Spread) {
	if s.Total() == (sched.Nanos{}) {
		return
	}
	const room = 25
	if s.Count() == 1 {
		t.line("%-26s%8s", term.Clip(name, room), ShortTime(s.Total().Duration()))
		return
	}
	t.line(spreadColumns, term.Clip(name, room), ShortTime(s.Total().Duration()), ShortTime(s.Min()), ShortTime(s.Mean()),
		ShortTime(s.Quantile(0.5)), ShortTime(s.Quantile(0.9)), ShortTime(s.Quantile(0.99)), ShortTime(s.Max()))
}

func (t *traceText) blockers(s *tracefile.Summary) {
	if len(s.Blockers) == 0 {
		return
	}
	t.title("WAITS", " by place, most time first")
	list := table{head: []string{"  TOTAL", "WAITS", "LONGEST", "AT END", "REASON", "WHERE"}, right: map[int]bool{0: true, 1: true, 2: true, 3: true}}
	for i := range s.Blockers {
		p := &s.Blockers[i]
		list.add("  "+ShortTime(p.Time.Add(p.NowTime).Duration()), english.Number(p.Count), ShortTime(p.Max), english.Number(p.Now), p.Reason, placeName(p))
	}
	list.write(t.w, t.style, 0)
	if rest := s.Places - len(s.Blockers); rest > 0 {
		t.line("  %s not listed: --top 0 lists all", english.Count(rest, "more place"))
	}
}

// placeName describes where goroutines wait: the innermost line that belongs to the program, and the line at which they
// stop.
func placeName(p *sched.Place) string {
	switch {
	case p.Other:
		return "(other places)"
	case p.Stack == nil || len(p.Stack.Frames) == 0:
		return "(stack not recorded)"
	}
	at, name := place.OfEvent(p.Stack, ""), func(f event.Frame) string { return place.ShortFunc(f.Func) }
	where := name(at) + " " + path.Base(at.File) + ":" + strconv.Itoa(at.Line)
	if leaf := p.Stack.Frames[0]; leaf != at {
		where += " in " + name(leaf)
	}
	return where
}

func (t *traceText) latency(l *sched.Latency) {
	all := l.All()
	if all.Count() == 0 {
		return
	}
	t.title("SCHEDULER LATENCY", ", from runnable to running")
	t.line("%s", t.style.Dim(fmt.Sprintf("%-26s%8s%8s%8s%8s%8s", "", "starts", "p50", "p90", "p99", "max")))
	for _, row := range latencyRows(l) {
		if h := row.h; h.Count() > 0 {
			t.line("  %-24s%8s%8s%8s%8s%8s", row.words, english.Number(h.Count()), ShortTime(h.Quantile(0.5)), ShortTime(h.Quantile(0.9)),
				ShortTime(h.Quantile(0.99)), ShortTime(h.Max()))
		}
	}
}

// latencyRow is the latencies for one cause.
type latencyRow struct {
	key, words string
	h          *sched.Histogram
}

func latencyRows(l *sched.Latency) []latencyRow {
	return []latencyRow{{"all", "all", l.All()}, {"created", "after they were created", &l.Created}, {"woken", "after a wait", &l.Woken},
		{"stopped", "after they were stopped", &l.Stopped}, {"returned", "after a system call", &l.Returned}}
}

func (t *traceText) runtime(s *tracefile.Summary) {
	rt := &s.Runtime
	if rt.GC.Begun == 0 && rt.STW.Begun == 0 && rt.HeapAt == 0 {
		return
	}
	t.title("GARBAGE COLLECTOR", "")
	if rt.GC.Begun > 0 || rt.GC.Uncertain > 0 {
		t.line("  %s observed from start to end, %s in total, longest %s", english.Count(rt.GC.Count, "collection"), ShortTime(rt.GC.Time.Duration()), ShortTime(rt.GC.Max))
	}
	if rt.STW.Count > 0 {
		t.line("  %s, %s in total, longest %s, p50 %s, p99 %s", english.Count(rt.STW.Count, "STW pause"),
			ShortTime(rt.STW.Time.Duration()), ShortTime(rt.STW.Max), ShortTime(rt.Pauses.Quantile(0.5)), ShortTime(rt.Pauses.Quantile(0.99)))
	}
	if rt.HeapAt != 0 {
		t.line("  heap between %s and %s, %s at the end", english.Size(s.HeapMin), english.Size(rt.HeapMax), english.Size(rt.Heap))
	}
}

// kinds lists the events by kind, the most frequent first.
func (t *traceText) kinds(totals *sched.Totals) {
	t.title("EVENTS", "")
	kinds := slices.Collect(maps.Keys(totals.Kinds))
	slices.SortFunc(kinds, func(a, b event.Kind) int {
		return cmp.Or(cmp.Compare(totals.Kinds[b], totals.Kinds[a]), cmp.Compare(a, b))
	})
	var words []string
	for _, k := range kinds {
		words = append(words, k.String()+" "+english.Number(totals.Kinds[k]))
	}
	t.line("  %s", term.Wrap(strings.Join(words, ", "), t.width, 2))
}
