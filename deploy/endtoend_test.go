package deploy

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/dashboard"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// hasty returns the rules with short durations and ranges.
func hasty(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	short := regexp.MustCompile(`\[\d+[mh]\]`).ReplaceAllString(string(text), "[20s]")
	return regexp.MustCompile(`for: \d+m`).ReplaceAllString(short, "for: 1s")
}

// unusual are metrics without data here: of targets that are not paused, make no spans of requests and estimate no allocations. TestQueries
// has them.
var unusual = regexp.MustCompile(`loupe_target_paused|loupe_request_|loupe_allocated_by_function`)

// TestEndToEnd has a Prometheus scrape an agent that observes a process that leaks goroutines and a busy one, and a Collector receive what
// it sends. The rule for leaks fires, and the queries of the dashboards have data. Then the agent is denied processor time as by a limit that is
// too low, and the rule for lost events fires.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	testtarget.Whole(t, "a leak takes a minute")
	limited := testcmd.Within(t, 0, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	limited.Env = append(os.Environ(), "GOMEMLIMIT=1GiB")
	leaky, noisy, steady := testtarget.StartCmd(t, limited), colony(t), colony(t)
	receiver := testcollector.Receive(t, nil)
	collector := testcollector.StartBefore(receiver)
	b := startBinary(t, only(fmt.Sprintf(`
sampling: {events_per_second: 10000000, max_target_overhead: 100%%, min_ratio: 1}
budget: {buffer_bytes: 64KiB, cpu: 8}
filters: {sample_long_running: 1}
tracing: {profiles: [heap], profile_interval: 2s}
output: {otlp: {protocol: http/protobuf, endpoint: "http://%s", flush_interval: 500ms, metric_interval: 2s}}
`, collector.HTTP), leaky, noisy, steady))
	p := scrape(t, b.metrics, hasty(t), "1s")
	for _, target := range []*testtarget.Process{leaky, noisy, steady} {
		b.await(atLeast(3), "loupe_target_level", pidLabel(target))
	}
	leaky.Command("hold 200")
	time.Sleep(200 * time.Millisecond) // a wait that is long enough for a span
	leaky.Command("free")
	noisy.Command("traffic 50")
	noisy.Command("lock 5")
	p.awaitAlert(t, "GoGoroutineLeak", pidLabel(leaky), func() { leaky.Command("leak 5") })
	for _, d := range dashboard.All() {
		for _, row := range d.Rows {
			for _, panel := range row.Panels {
				for _, q := range panel.Queries {
					if !unusual.MatchString(q.Expr) && len(p.query(t, substituted(d, q.Expr))) == 0 {
						t.Errorf("%s: %s: no data for %s", d.UID, panel.Title, q.Expr)
					}
				}
			}
		}
	}
	checkReceived(t, b, receiver, leaky)
	steady.Command("churn 3000")
	p.awaitAlert(t, "LoupeEventsLost", `job!=""`, func() {
		if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond)
		if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
}

// awaitAlert waits until an alert with a label fires. Each second it causes what the alert is about.
func (p prometheus) awaitAlert(t *testing.T, name, label string, cause func()) {
	t.Helper()
	for deadline := time.Now().Add(testcmd.Patience); ; time.Sleep(time.Second) {
		cause()
		if len(p.query(t, fmt.Sprintf(`ALERTS{alertname=%q,alertstate="firing",%s}`, name, label))) > 0 {
			t.Log(name, "fires")
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not fire: %s", name, p.get(t, "/api/v1/rules", nil))
		}
	}
}

// checkReceived compares what went through the Collector with the processes.
func checkReceived(t *testing.T, b *binary, receiver *testcollector.Receiver, leaky *testtarget.Process) {
	b.await(atLeast(1), "loupe_agent_export_items_total", `signal="logs"`, `result="exported"`)
	b.await(atLeast(100), "loupe_agent_export_items_total", `signal="traces"`, `result="exported"`)
	want := strings.TrimSpace(leaky.Command("num"))
	found := ""
	for deadline := time.Now().Add(testcmd.Patience); found != want && time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		for _, r := range receiver.Metrics() {
			if !strings.Contains(r.Resource.String(), fmt.Sprint(leaky.PID())) {
				continue
			}
			for _, s := range r.ScopeMetrics {
				for _, m := range s.Metrics {
					if m.Name == "go.goroutine.count" {
						found = fmt.Sprint(m.GetSum().DataPoints[0].GetAsInt() + int64(m.GetSum().DataPoints[0].GetAsDouble()))
					}
				}
			}
		}
	}
	if found != want {
		t.Errorf("the Collector has %s goroutines of a process that has %s", found, want)
	}
	logs := fmt.Sprint(receiver.Logs())
	if !strings.Contains(logs, "loupe.alert.leak") {
		t.Error("no log record of the leak")
	}
	spans := map[string]int{}
	for _, s := range receiver.Spans() {
		if s.Resource["process.pid"] == fmt.Sprint(leaky.PID()) {
			spans[s.Name]++
		}
	}
	for _, name := range []string{"goroutine main.(*colony).listen", "chan receive"} {
		if spans[name] != 200 {
			t.Errorf("%d spans %q of 200 goroutines: %v", spans[name], name, spans)
		}
	}
}
