package target

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
	gotrace "github.com/loupe-go/loupe/trace"
)

// observed is a target of a test.
type observed struct {
	*Target
	t       *testing.T
	program *testtarget.Process
}

func observe(t *testing.T, s Settings) *observed {
	t.Helper()
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	target, err := Open(t.Context(), Options{PID: program.PID(), Settings: s, Attach: make(chan struct{}, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
	})
	return &observed{target, t, program}
}

// value returns the value of the series of a metric with these labels, or the sum of all if there are none.
func (o *observed) value(d *metric.Desc, labels ...string) float64 {
	o.t.Helper()
	g, ok := o.Group(o.t.Context())
	if !ok {
		o.t.Fatal("the process has ended")
	}
	sum := 0.0
	for _, p := range g.Points {
		if p.Desc == d && (len(labels) == 0 || slices.Equal(p.Labels, labels)) {
			if p.Durations != nil {
				sum += float64(p.Durations.Count())
			}
			sum += p.Value
		}
	}
	return sum
}

// await waits until a metric has a value of at least want.
func (o *observed) await(want float64, d *metric.Desc, labels ...string) {
	o.t.Helper()
	var v float64
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if v = o.value(d, labels...); v >= want {
			return
		}
	}
	o.t.Fatalf("%s%q is %v, want at least %v", d.Name, labels, v, want)
}

// TestMemoryLevel reads a process without a probe.
func TestMemoryLevel(t *testing.T) {
	o := observe(t, Settings{Sites: 2})
	if n, want := fmt.Sprint(o.value(metric.Goroutines)), o.program.Command("num"); n != want {
		t.Errorf("%s goroutines, want %s", n, want)
	}
	before := o.value(metric.Created)
	o.program.Command("hold 500")
	if n := o.value(metric.Created) - before; n != 500 {
		t.Errorf("%v goroutines were created, want 500", n)
	}
	ended := o.value(metric.Ended)
	o.program.Command("free")
	if n := o.value(metric.Ended) - ended; n != 500 {
		t.Errorf("%v goroutines have ended, want 500", n)
	}
	if v := o.value(metric.Level, "0", "none"); v != 0 || o.value(metric.ProbeHits) != 0 {
		t.Errorf("level %v", v)
	}
	for _, d := range []*metric.Desc{metric.MemoryUsed, metric.MemoryAllocated, metric.Allocations, metric.GCGoal, metric.ProcessorLimit, metric.GOGC, metric.ProcessMemory,
		metric.HeapUsed, metric.ScheduleDuration, metric.Sites, metric.States} {
		if o.value(d) <= 0 {
			t.Errorf("%s is %v", d.Name, o.value(d))
		}
	}
}

// TestLevels observes events of a process that can afford them, and fewer when it becomes busy.
func TestLevels(t *testing.T) {
	o := observe(t, Settings{Want: Runs, Engine: loupe.EngineUprobe, Sites: 10, Overhead: 0.5, StackDepth: -1})
	for deadline := time.Now().Add(60 * time.Second); o.value(metric.Level) < float64(Runs); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("events are not observed")
		}
		o.mu.Lock()
		o.policy.calm = upMost // the wait is another test's
		o.mu.Unlock()
	}
	// On a busy machine some goroutines begin after they have been freed, and need not wait.
	for deadline := time.Now().Add(60 * time.Second); o.value(metric.Waits, "channel", "chan receive") < 50; {
		if time.Now().After(deadline) {
			t.Fatal("waits are not counted")
		}
		o.program.Command("hold 100")
		time.Sleep(20 * time.Millisecond)
		o.program.Command("free")
	}
	o.await(1, metric.SchedulerLatency)
	watched := func() *watch {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.watch
	}
	before := watched()
	o.ReadClock()
	for deadline := time.Now().Add(60 * time.Second); watched() == before || watched() == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the session did not begin again")
		}
	}
	o.mu.Lock()
	o.settings.Overhead = 0.0001
	o.mu.Unlock()
	o.program.Command("traffic 10")
	for deadline := time.Now().Add(60 * time.Second); o.value(metric.Level) > float64(Lifecycle); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the level is still %v", o.value(metric.Level))
		}
	}
	if o.value(metric.Paused, PausedOverhead) != 1 {
		t.Error("nothing says that events are not observed")
	}
	if n := o.value(metric.Waits, "channel", "chan receive"); n < 50 {
		t.Errorf("%v waits, although 50 were counted before", n)
	}
}

// TestWaitsPerSecond observes fewer goroutines when there are too many events of waits, although there may be more events in all.
func TestWaitsPerSecond(t *testing.T) {
	o := observe(t, Settings{Want: Waits, Engine: loupe.EngineUprobe, Overhead: 100, StackDepth: -1, Rates: Rates{All: 1e6}, MinRatio: 0.01})
	o.program.Command("leak 10000") // of few goroutines, the least part would be all
	o.await(float64(Waits), metric.Level)
	busy := func(until func(ratio float64) bool) float64 {
		for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
			o.program.Command("hold 2000")
			o.program.Command("free")
			if ratio := o.value(metric.SamplingRatio, "waits"); until(ratio) {
				return ratio
			}
		}
		return o.value(metric.SamplingRatio, "waits")
	}
	end := time.Now().Add(2*sampleEvery + stepEvery)
	if ratio := busy(func(ratio float64) bool { return ratio != 1 || time.Now().After(end) }); ratio != 1 {
		t.Errorf("the ratio is %v without a limit for waits, want 1", ratio)
	}
	o.mu.Lock()
	o.settings.Rates.Waits = 10
	o.mu.Unlock()
	if ratio := busy(func(ratio float64) bool { return ratio < 0.5 }); ratio >= 0.5 {
		t.Errorf("the ratio is %v with a limit for waits, want less than 0.5", ratio)
	}
}

// TestEnd kills a target.
func TestEnd(t *testing.T) {
	o := observe(t, Settings{Want: Lifecycle, Engine: loupe.EngineUprobe, Overhead: 1})
	o.program.Kill()
	select {
	case <-o.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the end of the process was not noticed")
	}
	if err := o.Err(); err == nil || !strings.Contains(err.Error(), "exited") && !strings.Contains(err.Error(), "exist") {
		t.Errorf("the error is %v", err)
	}
}

// TestPolicy chooses levels of imagined processes.
func TestPolicy(t *testing.T) {
	p := policy{want: Runs, overhead: 0.01, hitCost: 2 * time.Microsecond}
	second := func(starts, cpu float64) *activity {
		return &activity{created: 10, ended: 10, starts: starts, cpu: cpu, over: time.Second}
	}
	level := Memory
	for i := range 20 {
		level = p.next(level, second(100, 0.5))
		if want := map[bool]Level{false: Memory, true: Runs}[i == 19]; level != want {
			t.Fatalf("level %v after %d s, want %v", level, i+1, want)
		}
	}
	if level = p.next(level, second(1200, 0.5)); level != Waits { // 5 ms a second: 2,400 waits take 4.8 ms, and runs 2.9 more
		t.Errorf("level %v, want %v", level, Waits)
	}
	if level = p.next(level, second(1e6, 2)); level != Lifecycle {
		t.Errorf("level %v, want %v", level, Lifecycle)
	}
	if level = p.next(level, &activity{created: 1e6, ended: 1e6, starts: 1e6, cpu: 2, over: time.Second}); level != Memory {
		t.Errorf("level %v, want %v", level, Memory)
	}
	p.want = Waits
	if l := p.next(Runs, second(1, 1)); l != Waits {
		t.Errorf("level %v, want %v", l, Waits)
	}
	if l := p.next(Runs, second(-1, 1)); l != Lifecycle {
		t.Errorf("level %v although the number of starts is unknown, want %v", l, Lifecycle)
	}
}

// TestPolicyWaits has an imagined process whose level is affordable only now and then: it is tried less and less often.
func TestPolicyWaits(t *testing.T) {
	p := policy{want: Runs, overhead: 0.01, hitCost: 2 * time.Microsecond, calm: upMost}
	calm, busy := &activity{starts: 100, cpu: 0.5, over: time.Second}, &activity{starts: 1e6, cpu: 0.5, over: time.Second}
	level, rises := Memory, 0
	for range 3600 {
		next := p.next(level, calm)
		if next > level {
			rises++
			next = p.next(next, busy)
		}
		level = next
	}
	if rises != 10 { // at once, after 20, 40, 80, 160 and 320 s, and then each 10 minutes
		t.Errorf("a higher level was chosen %d times in an hour", rises)
	}
	for range 3600 {
		level = p.next(level, calm)
	}
	if level != Runs || p.wait != 0 {
		t.Errorf("level %v, and the wait is %v after an hour in which all was affordable", level, p.wait)
	}
}

// TestLeaks finds leaks in imagined censuses.
func TestLeaks(t *testing.T) {
	members := func(from, n int, stops uint8) (list []event.Member) {
		for i := range n {
			list = append(list, event.Member{ID: uint64(from + i), Stops: stops})
		}
		return list
	}
	group := func(reason string, m []event.Member) event.Tally {
		return event.Tally{State: event.StateWaiting, Reason: reason, Origin: event.Origin{CreatedBy: event.Frame{Func: "main.f", File: "/src/main.go", Line: 7}}, Members: m}
	}
	begin := time.Now()
	for _, test := range []struct {
		name          string
		before, after event.Tally
		want          int
	}{
		{"piles up", group("chan send", members(1, 10, 1)), group("chan send", members(1, 15, 1)), 15},
		{"does not grow", group("chan send", members(1, 10, 1)), group("chan send", members(1, 10, 1)), 0},
		{"others come", group("chan send", members(1, 10, 1)), group("chan send", members(20, 15, 1)), 0},
		{"has run", group("chan send", members(1, 10, 1)), group("chan send", members(1, 15, 2)), 0},
		{"input", group("IO wait", members(1, 10, 1)), group("IO wait", members(1, 15, 1)), 0},
		{"another wait", group("chan send", members(1, 10, 1)), group("select", members(1, 15, 1)), 0},
	} {
		f := leakFinder{}
		f.add(&census{at: begin, groups: []event.Tally{test.before}})
		f.add(&census{at: begin.Add(time.Second), groups: []event.Tally{test.after}})
		if len(f.suspects) > 0 {
			t.Errorf("%s: suspects after a second", test.name)
		}
		f.add(&census{at: begin.Add(leakAfter), groups: []event.Tally{test.after}})
		if site, n := f.worst(); n != test.want || n > 0 && site != "main.f main.go:7" {
			t.Errorf("%s: %d at %q, want %d", test.name, n, site, test.want)
		}
	}
}

// TestRecording records the events around an anomaly.
func TestRecording(t *testing.T) {
	recordings, alerts := make(chan Recording, 10), make(chan Alert, 10)
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	o := &observed{t: t, program: program}
	var err error
	o.Target, err = Open(t.Context(), Options{PID: program.PID(), Attach: make(chan struct{}, 1),
		Settings: Settings{Want: Runs, Engine: loupe.EngineUprobe, Overhead: 0.1, StackDepth: -1, Record: 3 * time.Second, Alerts: Thresholds{Growth: 100}},
		Alert:    func(a Alert) { alerts <- a },
		Record:   func(r Recording) { recordings <- r },
		Name:     func(id metric.Identity, alert string) string { return fmt.Sprint(alert, "-", program.PID()) }})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	o.mu.Lock()
	o.anomalies.sizes = []size{{time.Now().Add(-growthMin), 1}} // as if it had been observed for a while
	o.mu.Unlock()
	program.Command("hold 1000")
	program.Command("churn 100")
	a := <-alerts
	if name := fmt.Sprint(AlertGrowth, "-", program.PID()); a.Name != AlertGrowth || a.Recording != name || a.Value < 100 || !strings.Contains(a.Text, " goroutines, +") {
		t.Errorf("%+v", a)
	}
	r := <-recordings
	if r.Err != nil || r.Name != a.Recording {
		t.Fatalf("%s: %v", r.Name, r.Err)
	}
	reader, err := gotrace.NewReader(bytes.NewReader(r.Data))
	if err != nil {
		t.Fatal(err)
	}
	created := 0
	for e, err := range reader.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == event.GoCreate {
			created++
		}
	}
	if created == 0 {
		t.Error("no goroutine is created in the recording")
	}
}

// TestRequests makes spans of requests, with exemplars that lead to them, and estimates what functions allocate.
func TestRequests(t *testing.T) {
	got := make(chan *spans.Span, 100)
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "web", Stripped: true}))
	target, err := Open(t.Context(), Options{PID: program.PID(), Attach: make(chan struct{}, 1), Settings: Settings{Spans: true, Engine: loupe.EngineUprobe, Sites: 5},
		Span: func(s *spans.Span) { got <- s.Clone() }})
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{target, t, program}
	defer o.Close()
	address := strings.Fields(program.Command("address"))[1]
	served := func() trace.SpanID {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			r, err := http.Get("http://" + address + "/hello")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if len(got) > 0 {
				return (<-got).Context.SpanID()
			}
			if time.Now().After(deadline) {
				t.Fatalf("no spans: %v", o.AttachError())
			}
		}
	}
	want := served()
	http.DefaultClient.CloseIdleConnections()
	g, _ := o.Group(t.Context())
	i := slices.IndexFunc(g.Points, func(p metric.Point) bool {
		return p.Desc == metric.Requests && slices.Equal(p.Labels, []string{"net/http", "server", "ok"})
	})
	if i < 0 {
		t.Fatal("durations of requests are missing")
	}
	if p := g.Points[i]; p.Durations.Count() == 0 || !slices.ContainsFunc(p.Durations.Exemplars, func(e metric.Exemplar) bool { return e.SpanID == want || p.Durations.Count() > 1 }) {
		t.Errorf("%d durations with exemplars %v, want %v", p.Durations.Count(), p.Durations.Exemplars, want)
	}
	o.await(5, metric.ProbeHits) // there are no probes for anything else
	o.await(2, metric.TargetEvents)
	if took := o.value(metric.ProbeTime); took <= 0 || took > 10 {
		t.Errorf("the probes took %v s", took)
	}
	if lost := o.value(metric.TargetLost) + o.value(metric.RequestsIncomplete, "end") + o.value(metric.RequestsIncomplete, "work"); lost != 0 {
		t.Errorf("%v events lost, or spans incomplete", lost)
	}
	o.ReadClock()
	for again := true; again; time.Sleep(50 * time.Millisecond) {
		o.mu.Lock()
		again = o.againSpans
		o.mu.Unlock()
	}
	for len(got) > 0 {
		<-got
	}
	served()
	http.DefaultClient.CloseIdleConnections()
}

// TestAllocations estimates what functions allocate.
func TestAllocations(t *testing.T) {
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "maker", Stripped: true}))
	target, err := Open(t.Context(), Options{PID: program.PID(), Attach: make(chan struct{}, 1),
		Settings: Settings{Want: Lifecycle, Allocs: true, Engine: loupe.EngineUprobe, Sites: 2, Overhead: 1, StackDepth: 16}})
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{target, t, program}
	defer o.Close()
	o.await(float64(Lifecycle), metric.Level)
	program.Command("sites 100000")
	o.await(100e6, metric.Allocated) // 400 MB
	g, _ := o.Group(t.Context())
	functions := 0
	for _, p := range g.Points {
		if p.Desc == metric.Allocated {
			functions++
		}
	}
	if functions > 3 {
		t.Errorf("%d series for functions, want at most 2 and the rest", functions)
	}
}
