package functions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// selected are the functions of smith that the tests observe. The last ones cannot be observed.
var selected = []string{"main.(*store).*", "main.scalars", "main.texts", "main.others", "main.crowd", "main.recurse", "main.outer",
	"main.fails", "main.recovers", "main.leaf", "main.around", "main.faults", "main.nests", "main.exits", "main.sign", "main.apply[...]", "main.(*list[...]).push", "main.makeAdder.func*",
	"main.sometimes", "main.nap", "main.parity", "main.sends", "main.receives", "main.smalle*", "main.delays", "main.opens", "main.square.area",
	"main.(*square).area", "main.always", "main.assembled", "main.forever", "runtime.mallocgc"}

// small are the functions that engine inline cannot observe on amd64.
var small = []string{"main.smaller", "main.smallest", "main.sometimes"}

// each runs a test with each engine and each build of some releases and of the newest one.
func each(t *testing.T, test func(t *testing.T, o *observed), releases ...string) {
	if !testtarget.Complete() {
		t.Log(testtarget.LeftOut + "other releases, and each build with each engine")
		releases = nil
	}
	releases = append(releases, testtarget.Latest())
	for _, release := range releases {
		for _, stripped := range []bool{false, true} {
			for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
				if !testtarget.Complete() && stripped != (engine == loupe.EngineInline) {
					continue
				}
				spec := testtarget.Spec{Program: "smith", Go: release, Stripped: stripped}
				t.Run(fmt.Sprintf("%s/%s", engine, spec), func(t *testing.T) {
					if engine == loupe.EngineUprobe && os.Getuid() != 0 {
						t.Skip("eBPF requires root")
					}
					test(t, observe(t, spec, engine, loupe.Options{Spans: loupe.SpanOptions{Functions: selected}}))
				})
			}
		}
	}
}

// observed is a session with a target.
type observed struct {
	*spanstest.Session
	t      *testing.T
	target *testtarget.Process
	spec   testtarget.Spec
	engine loupe.Engine
	url    string
	total  int // spans that were taken
}

func observe(t *testing.T, spec testtarget.Spec, engine loupe.Engine, opt loupe.Options) *observed {
	t.Helper()
	o := &observed{t: t, target: testtarget.Start(t, testtarget.Build(t, spec)), spec: spec, engine: engine}
	o.url = "http://" + strings.Fields(o.target.Command("address"))[1]
	opt.Engine = engine
	o.Session = spanstest.Attach(t, o.target.PID(), opt)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return o
}

// take waits for n spans and returns all that have ended since the last call, in the order of their begins.
func (o *observed) take(n int) []*spans.Span {
	o.t.Helper()
	list := o.Take(n)
	o.total += len(list)
	slices.SortStableFunc(list, func(a, b *spans.Span) int { return int(a.Start - b.Start) })
	return list
}

// counts returns the numbers of calls that the program has counted, of functions that are observed.
func (o *observed) counts() map[string]int {
	o.t.Helper()
	var counts map[string]int
	if err := json.Unmarshal([]byte(o.target.Command("counts")), &counts); err != nil {
		o.t.Fatal(err)
	}
	for _, name := range small {
		if o.engine == loupe.EngineInline && o.spec.Arch != testtarget.ARM64 {
			delete(counts, name)
		}
	}
	delete(counts, "main.hottest")
	return counts
}

// run makes the program call functions, and returns the spans, of which there must be one for each call.
func (o *observed) run(way string, n int) []*spans.Span {
	o.t.Helper()
	before := o.counts()
	o.target.Command(fmt.Sprintf("run %s %d", way, n))
	return o.compare(way, before, 0)
}

// compare returns the spans since the program had counted some calls. others is the number of spans of other kinds.
func (o *observed) compare(what string, before map[string]int, others int) []*spans.Span {
	o.t.Helper()
	want, sum := map[string]int{}, others
	for name, n := range o.counts() {
		if n -= before[name]; n > 0 {
			want[name] = n
			sum += n
		}
	}
	list, got := o.take(sum), map[string]int{}
	for _, s := range list {
		if s.Kind == trace.SpanKindInternal {
			got[s.Name]++
		}
	}
	if !maps.Equal(got, want) || len(list) != sum {
		o.t.Errorf("%s: %d spans, want %d: %v, the program has counted %v", what, len(list), sum, got, want)
	}
	return list
}

// expect compares what describe returns for spans.
func (o *observed) expect(what string, list []*spans.Span, want ...string) {
	o.t.Helper()
	var got []string
	for _, s := range list {
		got = append(got, o.describe(s, list))
	}
	for i, text := range want {
		if name, _, _ := strings.Cut(text, " "); o.spec.Stripped || slices.Contains(o.unknown(), name) {
			want[i] = withoutValues(text)
		}
	}
	if !slices.Equal(got, want) {
		o.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// withoutValues removes parameters and results from a description.
func withoutValues(text string) string {
	name, rest, _ := strings.Cut(text, " (")
	_, rest, _ = strings.Cut(rest, ")→(")
	k := strings.LastIndex(rest, ")")
	rest = rest[k+1:]
	if strings.Contains(rest, " failed") { // it has returned an error
		rest = strings.ReplaceAll(rest, " failed", "")
	}
	return name + " ()→()" + rest
}

// describe returns the name of a span, its parameters and results, how it ended, and the name of its parent.
func (o *observed) describe(s *spans.Span, list []*spans.Span) string {
	var params, results []string
	typ := ""
	for _, a := range s.Attributes {
		key := string(a.Key)
		switch {
		case strings.HasPrefix(key, "loupe.go.arg."):
			params = append(params, strings.TrimPrefix(key, "loupe.go.arg.")+"="+a.Value.String())
		case strings.HasPrefix(key, "loupe.go.result."):
			if key != fmt.Sprintf("loupe.go.result.%d", len(results)) {
				o.t.Errorf("%s after %d results", key, len(results))
			}
			results = append(results, a.Value.String())
		case key == "error.type":
			typ = a.Value.String()
		case key == "code.function.name" && a.Value.String() == s.Name, key == "code.file.path" && strings.HasSuffix(a.Value.String(), ".go"),
			key == "code.line.number" && a.Value.AsInt64() > 5:
		default:
			o.t.Errorf("%s has the attribute %s=%s", s.Name, key, a.Value.String())
		}
	}
	text := fmt.Sprintf("%s (%s)→(%s)", s.Name, strings.Join(params, ","), strings.Join(results, ","))
	switch {
	case s.Ending == spans.Panicked && s.Status == codes.Error:
		text += " " + strings.TrimSpace(s.Message+" "+typ)
	case s.Ending != spans.Returned:
		text += fmt.Sprintf(" ending %d", s.Ending)
	case s.Status == codes.Error:
		text += " failed"
	}
	if !s.Parent.IsValid() {
		return text
	}
	i := slices.IndexFunc(list, func(p *spans.Span) bool { return p.Context.SpanID() == s.Parent.SpanID() })
	if i < 0 || list[i].Context.TraceID() != s.Context.TraceID() || list[i].Start > s.Start {
		return text + " in an unknown parent"
	}
	return text + " in " + list[i].Name
}

// unknown returns the functions whose parameters are unknown although there is debug information: before Go 1.21 it omits parameters
// without a name, and before Go 1.20 it is unknown where those for types are.
func (o *observed) unknown() []string {
	switch testtarget.Minor(o.spec.Go) {
	case "1.19":
		return []string{"main.(*list[...]).push", "main.texts"}
	case "1.20":
		return []string{"main.texts"}
	}
	return nil
}

// complete checks that nothing was lost or misunderstood.
func (o *observed) complete() {
	o.t.Helper()
	c, err := o.SpanCounts()
	if err != nil {
		o.t.Fatal(err)
	}
	n := c.Notes
	if c.Begun != c.Ended || int(c.Ended) != o.total || c.Strays != 0 || c.Mismatched != 0 || c.Unobserved != 0 || n.Lost != 0 || n.Unreadable != 0 || n.Garbled != 0 ||
		n.Impossible != 0 || n.Full != 0 || n.NotRead != 0 {
		o.t.Errorf("counts: %+v, %d spans taken", c, o.total)
	}
}

// TestCalls calls functions in each way.
func TestCalls(t *testing.T) {
	each(t, func(t *testing.T, o *observed) {
		checkWarnings(t, o)
		checkValues(t, o)
		checkPanics(t, o)
		checkForms(t, o)
		checkStacks(t, o)
		checkTimes(t, o)
		checkRequests(t, o)
		o.run("many", 4)
		o.complete()
	}, "1.19.13", "1.20.14", "1.23.12")
}

// checkWarnings compares the warnings about functions that cannot be observed.
func checkWarnings(t *testing.T, o *observed) {
	t.Helper()
	want := []string{
		"calls of main.(*square).area are not reported: generated by the compiler",
		"calls of main.always are not reported: inlined into all of their callers",
		"calls of main.assembled are not reported: written in assembler",
		"calls of main.forever are not reported: never returns",
		"calls of main.sometimes that are inlined into main.inlined are not reported",
		"calls of runtime.mallocgc are not reported: part of the Go runtime",
	}
	if o.spec.Stripped {
		want = append(want, "parameters and results of functions are not reported: the executable has no debug information")
	}
	if len(o.unknown()) > 0 && !o.spec.Stripped {
		want = append(want, fmt.Sprintf("parameters and results of %s are not reported: the debug information does not say how they are passed", strings.Join(o.unknown(), ", ")))
	}
	if o.engine == loupe.EngineInline {
		for _, name := range small {
			want = append(want, fmt.Sprintf("calls of %s are not reported: %[1]s: …cannot be patched", name))
		}
	}
	var got []string
	for _, w := range o.Warnings() {
		if w.Kind != event.WarnMissing {
			continue
		}
		text := w.Text
		if i := strings.Index(text, "cannot be patched"); i >= 0 { // the place precedes, and the reason follows
			text = text[:strings.LastIndex(text[:i], ": ")+2] + "…cannot be patched"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("warnings:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// checkValues compares parameters and results with those that the program passes.
func checkValues(t *testing.T, o *observed) {
	t.Helper()
	list := o.run("values", 2)
	var at map[string]string
	if err := json.Unmarshal([]byte(o.target.Command("values")), &at); err != nil {
		t.Fatal(err)
	}
	long, x, m, s := strings.Repeat("é", 32)+"…", at["x"], at["m"], at["s"]
	var want []string
	for k := range 2 {
		want = append(want,
			fmt.Sprintf("main.scalars (i=%d,i8=-8,i32=-70000,u=9223372036854775815,l=3,ok=%t,p=%s,m=%s)→(%d,%t,%[3]s,7)", -k, k == 0, x, m, k, k != 0),
			"main.scalars (i=7,i8=127,i32=1073741824,u=65537,l=255,ok=true,p=nil,m=nil)→(-7,false,nil,1)",
			"main.texts (s=text,b=[]uint8, length 3,e=nil,a=nil,st=nil,5=unused)→(text,[]string, length 4,nil)",
			"main.texts (s="+long+",b=[]uint8, length 0,e=*errors.errorString: missing,a=int,st=main.level,5=)→("+long+",[]string, length 1,*errors.errorString: missing) failed",
			"main.texts (s=\uFFFD\x00,b=[]uint8, length 9,e=*fmt.wrapError: wrapped: missing,a=string,st=*main.x2,5=)→(\uFFFD\x00,[]string, length 10,*fmt.wrapError: wrapped: missing) failed",
			"main.others (f=float64,n=10,g=float32,o=main.options,list=[2]int,c=complex128,last=5)→(float64,main.options,15)",
			"main.crowd (o=main.seven,a=1,s=first,k=-2,x=-3,t=second)→(main.seven,-3,second,first)",
			"main.(*store).get (s="+s+",key=a,n=2)→(1xx,nil)",
			"main.(*store).get (s="+s+",key=none,n=2)→(,*errors.errorString: missing) failed",
			"main.(*store).get (s="+s+",key=wrapped,n=2)→(,*fmt.wrapError: key \"wrapped\": missing) failed",
			"main.(*store).get (s="+s+",key=other,n=2)→(,*fs.PathError) failed")
	}
	o.expect("values", list, want...)
}

// checkPanics ends calls by panics and by runtime.Goexit.
func checkPanics(t *testing.T, o *observed) {
	t.Helper()
	const typ = "*errors.errorString"
	failing := func(n int, typ string, in ...string) (list []string) {
		for k := range n + 1 {
			text := fmt.Sprintf("main.fails (n=%d)→() panic %s", n-k, typ)
			if k > 0 {
				in = []string{"main.fails"}
			}
			if len(in) > 0 {
				text += " in " + in[0]
			}
			list = append(list, text)
		}
		return list
	}
	recovered := func(n int, in string) []string {
		list := append([]string{fmt.Sprintf("main.recovers (n=%d)→(%s: recovered: missing) failed%s", n, "*errors.errorString", in)}, failing(n, typ, "main.recovers")...)
		return append(list, fmt.Sprintf("main.leaf (n=%d)→(%[1]d) in main.fails", n))
	}
	var want []string
	for k := range 2 {
		want = append(append(want, recovered(3, "")...), fmt.Sprintf("main.leaf (n=%d)→(%[1]d)", k))
	}
	want = append(want, "main.around (n=2)→()")
	for range 2 {
		want = append(want, "main.leaf (n=1)→(1) in main.around", "main.faults (p=nil)→() panic runtime.errorString in main.around")
	}
	o.expect("panics", o.run("panics", 2), append(want, "main.leaf (n=2)→(2) in main.around")...)

	want = nil
	for range 2 {
		want = append(want, "main.nests ()→() panic string")
		want = append(append(want, failing(1, "string", "main.nests")...), recovered(1, " in main.fails")...)
	}
	o.expect("nested panics", o.run("nested", 2), want...)

	want = nil
	for range 2 {
		want = append(want, "main.exits (n=2)→() runtime.Goexit", "main.exits (n=1)→() runtime.Goexit in main.exits", "main.exits (n=0)→() runtime.Goexit in main.exits",
			"main.fails (n=0)→() panic "+typ+" in main.exits", "main.leaf (n=9)→(9) in main.exits")
	}
	o.expect("Goexit", o.run("goexit", 2), want...)
}

// checkForms calls functions of other forms.
func checkForms(t *testing.T, o *observed) {
	t.Helper()
	o.expect("returns", o.run("returns", 3), "main.sign (n=-1)→(negative)", "main.sign (n=0)→(zero)", "main.sign (n=1)→(positive)")
	o.expect("deferred", o.run("deferred", 1), "main.delays (n=2)→(7,nil)", "main.leaf (n=1)→(1) in main.delays", "main.leaf (n=1)→(1) in main.delays",
		"main.opens (n=3)→(4,*errors.errorString: missing) failed")
	o.expect("closures", o.run("closures", 3), "main.makeAdder.func1 (m=0)→(10)", "main.makeAdder.func1 (m=1)→(11)", "main.makeAdder.func1 (m=2)→(13)")
	var want []string
	for _, side := range []int{2, 3, 4, 2} {
		k := len(want)
		want = append(want, fmt.Sprintf("main.square.area (s=main.square,n=%d)→(%d)", k, side*side+k))
	}
	o.expect("methods", o.run("methods", 4), want...)
	if list := o.run("generic", 1); !o.spec.Stripped && o.spec.Go != "1.19.13" && o.spec.Go != "1.20.14" {
		for i, text := range []string{"list=[]int, length 2)→(2,2)", "list=[]string, length 1)→(1,1)", "v=0)→(1)", "v=pushed)→(1)"} {
			got := o.describe(list[i], list)
			got = got[:strings.IndexByte(got, '(')] + removed(got, "f=0x", "l=0x")
			if !strings.HasSuffix(got, text) {
				t.Errorf("generic: %s, want %s", got, text)
			}
		}
	}
	o.run("inlined", 3)
	o.expect("words", o.run("words", 2), "main.parity (n=0)→(an even number)", "main.parity (n=1)→(an odd number)")
	if o.run("small", 3); o.engine == loupe.EngineUprobe {
		o.run("small", 1)
	}
	o.run("assembled", 1)
}

// removed returns the parameters and results in a description without parameters that begin with a text.
func removed(text string, begins ...string) string {
	text = text[strings.IndexByte(text, '('):]
	for _, b := range begins {
		if i := strings.Index(text, b); i >= 0 {
			j := i + strings.IndexAny(text[i:], ",)")
			text = text[:i] + strings.TrimPrefix(text[j:], ",")
			text = strings.Replace(text, ",)", ")", 1)
		}
	}
	return text
}

// checkStacks checks the parents of calls on stacks that move.
func checkStacks(t *testing.T, o *observed) {
	t.Helper()
	for _, run := range []struct {
		way  string
		n    int
		tops int // calls of recurse that are not in another one
	}{{"recursion", 50, 1}, {"growth", 3, 9}} {
		list := o.run(run.way, run.n)
		names := map[trace.SpanID]string{}
		for _, s := range list {
			names[s.Context.SpanID()] = s.Name
		}
		tops, children := 0, map[trace.SpanID]int{}
		for _, s := range list {
			if s.Name != "main.recurse" {
				continue
			}
			if names[s.Parent.SpanID()] != s.Name {
				tops++
			} else if children[s.Parent.SpanID()]++; children[s.Parent.SpanID()] > 1 {
				t.Errorf("%s: two calls of recurse in one", run.way)
			}
		}
		if tops != run.tops {
			t.Errorf("%s: %d calls of recurse that are not in another one, want %d", run.way, tops, run.tops)
		}
	}
}

// checkTimes checks that calls take at least as long as the program has measured in them, although they continue on other threads.
func checkTimes(t *testing.T, o *observed) {
	t.Helper()
	for _, s := range o.run("naps", 4) {
		if s.Name != "main.nap" {
			continue
		}
		least := int64(time.Millisecond)
		for _, a := range s.Attributes {
			if a.Key == "loupe.go.result.0" {
				least = max(least, a.Value.AsInt64())
			}
		}
		if d := s.End - s.Start; d < least*9/10 {
			t.Errorf("%s takes %v, the program has measured %v", s.Name, time.Duration(d), time.Duration(least))
		}
	}
}

// checkRequests calls functions in requests.
func checkRequests(t *testing.T, o *observed) {
	t.Helper()
	get := func(path string, others int) []*spans.Span {
		t.Helper()
		before := o.counts()
		http.DefaultClient.CloseIdleConnections() // a request that fails on a connection that was used before is repeated
		if resp, err := http.Get(o.url + path); err == nil {
			resp.Body.Close()
		}
		list := o.compare(path, before, others)
		slices.SortFunc(list, func(a, b *spans.Span) int { return int(b.Kind - a.Kind) }) // the request first
		return list
	}
	for _, test := range []struct {
		path string
		n    int
		rule spans.Rule
	}{{"/get?key=b", 3, spans.RuleGoroutine}, {"/spawn?key=b", 4, spans.RuleCreator}} {
		list := get(test.path, 1)
		if len(list) != 2 {
			continue
		}
		request, call := list[0], list[1]
		if request.Kind != trace.SpanKindServer || call.Rule != test.rule || call.Parent.SpanID() != request.Context.SpanID() ||
			call.Context.TraceID() != request.Context.TraceID() || call.Start < request.Start || call.End > request.End || call.Ending != spans.Returned {
			t.Errorf("%s: %+v in %+v", test.path, call, request)
		}
	}
	list := get("/panic", 1)
	for _, s := range list[1:] {
		if s.Status != codes.Error || s.Ending != spans.Panicked || s.Message != "panic" || s.Context.TraceID() != list[0].Context.TraceID() {
			t.Errorf("/panic: %+v", s)
		}
	}
}

// TestEngineAuto checks that EngineAuto counts allocations with engine inline, unless that cannot observe a selected function.
func TestEngineAuto(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF requires root")
	}
	spec := testtarget.Spec{Program: "smith", Go: testtarget.Latest(), Stripped: true}
	for _, c := range []struct {
		functions []string
		want      string
	}{
		{[]string{"main.nap", "main.parity"}, "using engine inline (patches the process): engine uprobe would take 1 µs or more for each allocation"},
		{[]string{"main.nap", "main.smalle*"}, "using engine uprobe (1 µs or more for each allocation): engine inline cannot observe all selected functions: "},
	} {
		if runtime.GOARCH != testtarget.AMD64 && strings.HasPrefix(c.want, "using engine uprobe") {
			continue // engine inline can observe each function
		}
		o := observe(t, spec, loupe.EngineAuto, loupe.Options{Spans: loupe.SpanOptions{Functions: c.functions, Allocs: true}})
		if !slices.ContainsFunc(o.Warnings(), func(w event.Warning) bool { return strings.HasPrefix(w.Text, c.want) }) {
			t.Errorf("%q: warnings %q, want %q", c.functions, o.Warnings(), c.want)
		}
	}
}
