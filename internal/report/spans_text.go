package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/spans/routes"
	"github.com/loupe-go/loupe/internal/spans/tree"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/spans"
)

// Widths of the bars of a waterfall, and of the names of spans.
const (
	minBar, maxBar   = 10, 60
	minName, maxName = 20, 60
)

// A Waterfall is a request with the spans in it, each drawn as a bar over the time of the request.
type Waterfall struct {
	Tree *tree.Tree

	zone *time.Location // nil: local time
}

// Text writes the waterfall. Lines are cut at width columns; 0 means no limit.
func (f Waterfall) Text(out io.Writer, style term.Style, width int) error {
	w := bufio.NewWriter(out)
	root := f.Tree.Root
	line := fmt.Sprintf("%s  %s  %s  trace %s", time.Unix(0, root.Start).In(cmp.Or(f.zone, time.Local)).Format("15:04:05.000"), ShortTime(duration(root)), spanTitle(root), root.Context.TraceID())
	fmt.Fprintln(w, emphasis(style, root)(term.Clip(line, width)))
	if root.Work != nil {
		writeWork(w, style, width, root)
	}
	if len(f.Tree.Spans) > 0 {
		f.bars(w, style, width)
	}
	if n := f.Tree.Omitted; n > 0 {
		fmt.Fprintf(w, "  %s\n", english.Count(n, "more span"))
	}
	return w.Flush()
}

// bars writes a line for each span.
func (f Waterfall) bars(w io.Writer, style term.Style, width int) {
	all := append([]tree.Node{{Span: f.Tree.Root}}, f.Tree.Spans...)
	names, times := make([]string, len(all)), make([]string, len(all))
	wide, rest := 0, 0
	for i, n := range all {
		names[i] = strings.Repeat("  ", n.Depth+1) + spanTitle(n.Span)
		times[i] = ShortTime(duration(n.Span))
		wide = max(wide, utf8.RuneCountInString(names[i]))
		rest = max(rest, len("    ")+utf8.RuneCountInString(times[i]))
	}
	wide = min(wide, maxName)
	bar := maxBar
	if width > 0 {
		wide = min(wide, max(width/2, minName))
		bar = min(max(width-wide-rest, minBar), maxBar)
	}
	for i, n := range all {
		name := term.Clip(names[i], wide)
		pad := strings.Repeat(" ", wide-utf8.RuneCountInString(name))
		before, length := f.place(n.Span, bar)
		line := strings.Repeat(" ", before) + strings.Repeat("█", length) + strings.Repeat(" ", bar-before-length)
		fmt.Fprintf(w, "%s%s  %s  %s\n", name, pad, emphasis(style, n.Span)(line), times[i])
	}
}

// place returns where the bar of a span begins, and its length.
func (f Waterfall) place(s *spans.Span, bar int) (before, length int) {
	root := f.Tree.Root
	total := max(root.End-root.Start, 1)
	at := func(t int64) int { return int(min(max(t-root.Start, 0), total) * int64(bar) / total) }
	before = min(at(s.Start), bar-1)
	return before, max(at(s.End)-before, 1)
}

// spanTitle returns the name of a span, and its status or what else tells it from others. Those that the program exports itself are marked.
func spanTitle(s *spans.Span) string {
	title := s.Name
	for _, kv := range s.Attributes {
		switch kv.Key {
		case "url.path":
			if !strings.Contains(title, "/") {
				title += " " + kv.Value.AsString()
			}
		case "url.full":
			_, address, _ := strings.Cut(kv.Value.AsString(), "://")
			title += " " + address
		case "http.response.status_code", "rpc.response.status_code", "error.type":
			if text := kv.Value.String(); !strings.HasSuffix(title, " "+text) {
				title += " " + text
			}
		}
	}
	if s.Exported {
		title += " [own]"
	}
	return term.Escape(title)
}

func emphasis(style term.Style, s *spans.Span) func(string) string {
	if s.Status == codes.Error {
		return style.Bad
	}
	if s.Parent.IsValid() && s.Rule != spans.RuleHeader {
		return style.Good
	}
	return style.Bold
}

func duration(s *spans.Span) time.Duration { return time.Duration(s.End - s.Start) }

// writeWork writes how the time of a request was spent.
func writeWork(w io.Writer, style term.Style, width int, s *spans.Span) {
	var spent []string
	if times := timesText(&s.Work.Own, duration(s)); times != "" { // waits are observed
		spent = append(spent, times)
	}
	if s.Work.Uncertain {
		spent = append(spent, "uncertain: events were lost")
	}
	if len(spent) > 0 {
		fmt.Fprintln(w, term.Clip("  "+strings.Join(spent, "; "), width))
	}
	if a := s.Work.Allocated; a != nil {
		fmt.Fprintln(w, term.Clip("  "+allocatedText(a), width))
	}
	if h := s.Work.Holder; h.Wait > 0 && (h.G != 0 || h.Func != "") {
		held := "goroutine " + fmt.Sprint(h.G)
		if h.Func != "" {
			held = h.Func + " in " + held
		}
		fmt.Fprintln(w, style.Dim(term.Clip("  longest wait for a lock "+ShortTime(h.Wait)+", released by "+term.Escape(held), width)))
	}
	if n := s.Work.Created; n > 0 {
		fmt.Fprintln(w, style.Dim(term.Clip("  "+english.Count(n, "goroutine")+" started: "+timesText(&s.Work.Started, s.Work.Started.Total()), width)))
	}
}

// allocatedText returns what a request has allocated.
func allocatedText(a *spans.Allocations) string {
	return fmt.Sprintf("allocated %s in %s", english.Size(int64(a.Bytes)), english.Count(a.Objects, "object"))
}

// timesText lists times, the longest first, and which part of a total they are.
func timesText(times *spans.Times, total time.Duration) string {
	var parts []string
	for _, c := range longestFirst(times) {
		parts = append(parts, fmt.Sprintf("%s %s (%.0f %%)", classWord(c), ShortTime(times[c]), 100*float64(times[c])/float64(max(total, 1))))
	}
	return strings.Join(parts, ", ")
}

// sharesText lists the parts of a time that are 1 % or more, the largest first.
func sharesText(times *spans.Times) string {
	var parts []string
	total := times.Total()
	for _, c := range longestFirst(times) {
		if percent := 100 * float64(times[c]) / float64(total); percent >= 1 {
			parts = append(parts, fmt.Sprintf("%.0f %% %s", percent, classWord(c)))
		}
	}
	return strings.Join(parts, ", ")
}

// longestFirst returns the classes with a time.
func longestFirst(times *spans.Times) []spans.Class {
	var order []spans.Class
	for c, d := range times {
		if d > 0 {
			order = append(order, spans.Class(c))
		}
	}
	slices.SortStableFunc(order, func(a, b spans.Class) int { return cmp.Compare(times[b], times[a]) })
	return order
}

func classWord(c spans.Class) string { return strings.ReplaceAll(c.String(), "_", " ") }

// Routes is the table of operations.
type Routes struct {
	Routes  []*routes.Route
	Elapsed time.Duration
	Top     int // maximum number of rows; 0: all
	Rows    int // number of lines below the head for which the terminal has space; 0: any
}

var kindWords = map[trace.SpanKind]string{trace.SpanKindServer: "server", trace.SpanKindClient: "client", trace.SpanKindProducer: "producer",
	trace.SpanKindConsumer: "consumer", trace.SpanKindInternal: "internal"}

// Text writes the table. Lines are cut at width columns; 0 means no limit. If the table is wider, how the time was spent is below
// each operation.
func (r *Routes) Text(out io.Writer, style term.Style, width int) error {
	n := r.shown(1)
	t := r.table(n)
	if !t.fits(width) {
		n = r.shown(2)
		t = r.table(n)
		t.stack("    ")
	}
	if err := t.write(out, style, width); err != nil {
		return err
	}
	more := len(r.Routes) - n
	if more == 0 {
		return nil
	}
	line := english.Count(more, "more operation")
	if n == r.Top {
		line += " (--top 0 shows all)"
	}
	_, err := fmt.Fprintln(out, style.Dim(term.Clip(line, width)))
	return err
}

// table returns the first n operations.
func (r *Routes) table(n int) *table {
	numbers := []string{"COUNT", "/S", "ERRORS", "P50", "P99", "MAX"}
	counted := slices.ContainsFunc(r.Routes, func(row *routes.Route) bool { return row.Allocated != nil })
	if counted {
		numbers = append(numbers, "ALLOCATED")
	}
	t := &table{head: append(numbers, "KIND", "OPERATION", "SPENT"), right: map[int]bool{}}
	for i := range numbers {
		t.right[i] = true
	}
	for _, row := range r.Routes[:n] {
		cells := []string{english.Number(row.Count), english.Rate(perSecond(row.Count, r.Elapsed)), english.Number(row.Errors), ShortTime(row.Durations.Quantile(0.5)),
			ShortTime(row.Durations.Quantile(0.99)), ShortTime(row.Durations.Max())}
		if counted {
			cells = append(cells, averageText(row))
		}
		t.add(append(cells, kindWords[row.Kind], cmp.Or(row.Name, "other operations of "+row.Library), sharesText(&row.Own))...)
	}
	return t
}

// averageText returns what a request of an operation allocates on average; it is empty if that is unknown.
func averageText(row *routes.Route) string {
	if row.Allocated == nil {
		return ""
	}
	return english.Size(int64(row.Allocated.Bytes / max(row.Count, 1)))
}

// shown returns the number of operations that are shown, if each takes a number of lines.
func (r *Routes) shown(lines int) int {
	n := len(r.Routes)
	if r.Top > 0 {
		n = min(n, r.Top)
	}
	if r.Rows > 0 {
		n = min(n, max(r.Rows/lines, 1))
	}
	return n
}
