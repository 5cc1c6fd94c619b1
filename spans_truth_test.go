package loupe_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/tracetruth"
	"github.com/loupe-go/loupe/spans"
)

// How far the breakdown of a span may be from that of the trace. A region is within its span, and the goroutine runs between their
// borders, unless it is preempted or waits for the garbage collector. So the difference of the two durations is allowed for these
// classes. In addition, the time of each step may differ: a probe takes one to some twelve microseconds and is hit just before or
// after the runtime reads the clock for its trace.
const (
	spanBase    = 50 * time.Microsecond // for any span
	spanPerStep = 10 * time.Microsecond // for each change of a goroutine's state
	spanPercent = 1                     // of the duration
	// The kernel can take the processor away between the two observations of a step. That may be so for one in spanLateOneIn
	// requests, and a few.
	spanLateOneIn = 20
	spanLateFew   = 5
)

// truthKinds are what requests for /truth/ do.
var truthKinds = []string{"cpu", "sleep", "chan", "select", "lock", "network", "write", "gc", "start", "mix"}

// TestTruthSpans compares how the time of requests was spent with the execution trace that the program records at the same time.
func TestTruthSpans(t *testing.T) {
	inline := *engine == string(loupe.EngineInline) // always observes system calls
	for _, spec := range testtarget.Last(t, webSpecs(t)) {
		for _, procs := range append([]int{2}, testtarget.Rare(t, 1, 8)...) {
			t.Run(fmt.Sprintf("%v/procs=%d", spec, procs), func(t *testing.T) {
				compareSpans(t, spec, procs, inline)
			})
		}
		if !inline {
			t.Run(fmt.Sprintf("%v/syscalls", spec), func(t *testing.T) {
				compareSpans(t, spec, 2, true)
			})
		}
	}
}

func compareSpans(t *testing.T, spec testtarget.Spec, procs int, syscalls bool) {
	const requests, senders = 200, 16
	cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(procs), "GOGC=20")
	w := observeWeb(t, testtarget.StartCmd(t, cmd), loupe.Options{Spans: loupe.SpanOptions{Syscalls: syscalls}})
	path := filepath.Join(t.TempDir(), "trace")
	if answer := w.target.Command("trace " + path); answer != "tracing" {
		t.Fatal(answer)
	}
	w.sendMany(requests, senders, func(n int) string { return fmt.Sprintf("/truth/%s/%d", truthKinds[n%len(truthKinds)], n) })
	if answer := w.target.Command("stop"); answer != "traced" {
		t.Fatal(answer)
	}
	// Before Go 1.22 a trace does not have the ends of most system calls.
	c := &spanComparison{t: t, spans: map[string]*spans.Span{}, syscalls: syscalls && minorOf(t, spec.Go) >= 22}
	w.await(func() bool {
		for _, s := range w.got {
			if words := strings.Split(attributes(s)["url.path"], "/"); len(words) == 4 && words[1] == "truth" {
				c.spans["request "+words[3]] = s
			}
		}
		return len(c.spans) >= requests
	})
	for _, r := range readTrace(t, path, spec.Go).Requests(syscalls) {
		c.compare(r)
	}
	c.judge(requests)
}

// A spanComparison compares spans with the requests of a trace.
type spanComparison struct {
	t           *testing.T
	syscalls    bool                   // are compared; otherwise they count as running
	spans       map[string]*spans.Span // by the name of the region
	compared    int
	moved       int // of these, differ, but the trace reader has changed times
	late        []string
	seen, truth spans.Times
	slack       time.Duration
}

func (c *spanComparison) compare(r *tracetruth.Request) {
	c.t.Helper()
	s := c.spans[r.Name]
	if s == nil {
		c.t.Errorf("%s: no span", r.Name)
		return
	}
	d := time.Duration(s.End - s.Start)
	if s.G != r.G || s.Work.Own.Total() != d || s.Work.Uncertain || s.Work.Created != r.Created {
		c.t.Errorf("%s: goroutine %d, %v of %v accounted, uncertain: %v, %d goroutines started; the trace has goroutine %d and %d started",
			r.Name, s.G, s.Work.Own.Total(), d, s.Work.Uncertain, s.Work.Created, r.G, r.Created)
	}
	c.compared++
	slack := max(d-time.Duration(r.End-r.Begin), 0)
	c.slack += slack
	allowed := spanBase + time.Duration(r.Steps)*spanPerStep + d*spanPercent/100
	own := c.differences(s.Work.Own, r.Own, allowed, slack)
	total := s.Work.Started.Total()
	allowed = spanBase + time.Duration(r.Others)*spanPerStep + total*spanPercent/100
	started := c.differences(s.Work.Started, r.Started, allowed+time.Duration(r.Alive)*slack, 0)
	switch {
	case own+started == "":
	case r.Moved:
		c.moved++
	default:
		c.late = append(c.late, fmt.Sprintf("%s (%s, %v, %v longer than the region):%s; goroutines started:%s", r.Name, attributes(s)["url.path"], d, slack, own, started))
	}
	for class := range spans.NumClasses {
		c.seen[class] += s.Work.Own[class]
		c.truth[class] += r.Own[class]
	}
}

// differences lists the classes whose times differ by more than is allowed.
func (c *spanComparison) differences(seen, truth spans.Times, allowed, slack time.Duration) string {
	var out strings.Builder
	if !c.syscalls {
		for _, t := range []*spans.Times{&seen, &truth} {
			t[spans.Running] += t[spans.Syscall]
			t[spans.Syscall] = 0
		}
	}
	for i := range spans.NumClasses {
		class, more := spans.Class(i), allowed
		switch class {
		case spans.Running, spans.Runnable, spans.Assist, spans.Other:
			more += slack
		}
		if d := seen[i] - truth[i]; d > more || d < -allowed {
			fmt.Fprintf(&out, " %v %v, in the trace %v (%v allowed)", class, seen[i], truth[i], more)
		}
	}
	return out.String()
}

func (c *spanComparison) judge(requests int) {
	c.t.Helper()
	c.t.Logf("%d requests: %d differ by moved times, %d late; spans are %v longer; %v, in the trace %v", c.compared, c.moved, len(c.late),
		c.slack/time.Duration(max(c.compared, 1)), c.seen, c.truth)
	if c.compared != requests || c.moved > requests/4 {
		c.t.Errorf("%d of %d requests compared, %d differ by moved times", c.compared, requests, c.moved)
	}
	if most := spanLateFew + requests/spanLateOneIn; len(c.late) > most {
		c.t.Errorf("%d requests differ, at most %d may:\n%s", len(c.late), most, strings.Join(c.late, "\n"))
	} else if len(c.late) > 0 {
		c.t.Logf("late:\n%s", strings.Join(c.late, "\n"))
	}
	if c.syscalls && c.seen[spans.Syscall] == 0 {
		c.t.Error("no system call was compared")
	}
	for _, class := range []spans.Class{spans.Runnable, spans.Chan, spans.Select, spans.Mutex, spans.Network, spans.Sleep, spans.Sync} {
		if c.truth[class] == 0 || c.seen[class] == 0 {
			c.t.Errorf("nothing was compared that was %v", class)
		}
	}
}

// sendMany sends requests from some goroutines at once. Each has a path and a parent by its number.
func (w *web) sendMany(requests, senders int, path func(n int) string) {
	w.t.Helper()
	w.client.Transport.(*http.Transport).MaxIdleConnsPerHost = senders
	numbers := make(chan int)
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for n := range numbers {
				if status, _ := w.send("GET", "http://"+w.plain+path(n), "", "traceparent", numbered(n)); status == 0 {
					w.t.Errorf("%s: no response", path(n))
				}
			}
		})
	}
	for n := range requests {
		numbers <- n
	}
	close(numbers)
	all.Wait()
}

// await waits until a condition holds. It is called while no spans are added.
func (w *web) await(done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		ok := done()
		w.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal("too few spans")
		}
	}
}
