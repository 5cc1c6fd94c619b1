//go:build setclock

package agent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// setClock sets the clock of the machine forward, or back.
func setClock(t *testing.T, by time.Duration) {
	t.Helper()
	ts := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		t.Fatal(err)
	}
}

// TestSetClock sets the clock of this machine by 20 seconds, forward and back, while the agent works: it counts on, and the spans of requests
// have the new time.
func TestSetClock(t *testing.T) {
	program := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "web", Stripped: true}))
	address := strings.Fields(program.Command("address"))[1]
	receiver := testcollector.Receive(t, nil)
	a := run(t, fmt.Sprintf(`
targets: {pids: [%d]}
sampling: {max_target_overhead: 50%%}
tracing: {spans: true}
output: {otlp: {protocol: http/protobuf, endpoint: "http://%s", flush_interval: 200ms, metric_interval: 1s}}
`, program.PID(), receiver.HTTP))
	a.await(equals(3), metric.Level)
	// served makes requests until the span of one begins at about the time of the request.
	served := func() {
		t.Helper()
		var off time.Duration
		begin := time.Now()
		for time.Since(begin) < time.Minute {
			n, now := len(receiver.Spans()), time.Now()
			r, err := http.Get("http://" + address + "/hello")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			time.Sleep(time.Second)
			for _, s := range receiver.Spans()[n:] {
				if off = s.Start.Sub(now.Round(0)); s.Kind == "Server" && off.Abs() < 500*time.Millisecond {
					t.Logf("a span begins %v after the request, %.1f s after the clock was set", off, time.Since(begin).Seconds())
					return
				}
			}
		}
		t.Fatalf("no span has the time of its request; the last one differs by %v", off)
	}
	served()
	created, received := a.scrape(metric.Created), a.scrape(metric.EventsReceived)
	const step = 20 * time.Second
	for i, by := range []time.Duration{step, -step} {
		setClock(t, by)
		served()
		a.await(equals(3), metric.Level)
		if n := strings.Count(a.log.String(), "the wall clock was set"); n != i+1 {
			t.Errorf("the clock was set %d times, the log says %d", i+1, n)
		}
		c, r := a.scrape(metric.Created), a.scrape(metric.EventsReceived)
		if c < created || r < received {
			t.Errorf("%v goroutines created, %v before; %v events, %v before", c, created, r, received)
		}
		created, received = c, r
	}
	if lost := a.scrape(metric.EventsLost); lost != 0 {
		t.Errorf("%v events lost", lost)
	}
}
