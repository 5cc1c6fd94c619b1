package push

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testmount"
)

// sendOne exports a span, a log record and a profile.
func sendOne(to *Target) {
	to.Goroutine(GoroutineSpan{Name: "x"})
	to.Alert(Alert{Name: "x"})
	to.Profile("cpu", heapProfile())
}

func onePoint(context.Context) []metric.Group {
	return []metric.Group{{Identity: host, Points: []metric.Point{metric.Goroutines.Of(1)}}}
}

// TestTLS exports to a back end that requires a client certificate and a header, and then without the certificate.
func TestTLS(t *testing.T) {
	server, ca, cert, key := certificates(t)
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, server)
			o := Options{
				Protocol: protocol, Endpoint: "https://" + endpoint(r.HTTP, r.GRPC), CAFile: ca, CertFile: cert, KeyFile: key, Metrics: onePoint,
				Headers: map[string]string{"authorization": "Bearer a b=c,d"},
			}
			p := open(t, o)
			sendOne(target(t, p, host))
			closeAll(t, p)
			for _, s := range Signals {
				checkStats(t, p, s, exported(1))
			}
			headers := r.Headers()
			for _, h := range headers {
				name := "authorization" // as gRPC spells it
				if got := strings.Join(append(h[name], h.Values(name)...), ""); got != "Bearer a b=c,d" {
					t.Errorf("header %v", h)
				}
			}
			if len(headers) != 4 {
				t.Errorf("%d requests", len(headers))
			}
			o.CertFile, o.KeyFile, o.retry = "", "", impatient
			p = open(t, o)
			sendOne(target(t, p, host))
			closeQuietly(p)
			for _, s := range Signals {
				if got := p.Stats()[s]; got.Failed != 1 || !slices.ContainsFunc(p.Points(), func(p metric.Point) bool {
					return p.Desc == metric.ExportItems && p.Value == 1 && slices.Equal(p.Labels, []string{string(s), "failed"})
				}) || got.Since.IsZero() || got.Err == "" {
					t.Errorf("%s without a certificate: %+v", s, got)
				}
			}
			if len(r.Headers()) != 4 {
				t.Error("a request without a certificate was accepted")
			}
		})
	}
}

// TestReload closes and opens pushers, and requires that nothing of them is left while the back end runs.
func TestReload(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			before := goleak.IgnoreCurrent()
			for range 5 {
				p := open(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC), Metrics: onePoint, Directory: t.TempDir()})
				to := target(t, p, host)
				sendOne(to)
				closeAll(t, p)
				to.Close(metric.Group{Identity: host, Points: []metric.Point{metric.Goroutines.Of(1)}})
				sendOne(to) // too late
				for _, s := range Signals {
					if got := p.Stats()[s]; got.Exported != 1 || got.Dropped != 1 || got.Queued != 0 {
						t.Errorf("%s: %+v", s, got)
					}
				}
			}
			goleak.VerifyNone(t, before)
		})
	}
}

// books checks that each item which was given is counted once.
func books(t *testing.T, p *Pusher, given map[Signal]uint64) {
	t.Helper()
	for s, stats := range p.Stats() {
		if stats.Added() != given[s] {
			t.Errorf("%s: %+v, given %d", s, stats, given[s])
		}
	}
}

// A backEnd can be stopped and started.
type backEnd struct{ start, stop func() }

// TestDown exports while the back end is down from the start, up, down again and up again. Each change is one log line for each signal.
func TestDown(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			testDown(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC)}, backEnd{r.Start, r.Stop})
		})
		t.Run("collector "+protocol, func(t *testing.T) {
			c := testcollector.Start(t)
			testDown(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(c.HTTP, c.GRPC)}, backEnd{c.Restart, c.Kill})
		})
	}
}

func testDown(t *testing.T, o Options, b backEnd) {
	var log logBook
	var mu sync.Mutex
	rounds := uint64(0)
	o.retry, o.FlushInterval, o.Log = impatient, time.Millisecond, log.log()
	o.Metrics = func(ctx context.Context) []metric.Group {
		mu.Lock()
		defer mu.Unlock()
		rounds++
		return onePoint(ctx)
	}
	b.stop()
	p := open(t, o)
	to := target(t, p, host)
	given := uint64(0)
	// reach waits until all signals fail, or all work.
	reach := func(what string, failing bool) {
		until(t, what, func() bool {
			sendOne(to)
			given++
			for _, s := range Signals {
				if stats := p.Stats()[s]; stats.Since.IsZero() == failing || !failing && stats.Exported == 0 {
					return false
				}
			}
			return true
		})
	}
	reach("failures", true)
	if err := p.Err(); err == nil || strings.Count(err.Error(), "cannot export") != 4 || strings.Contains(err.Error(), "\n") {
		t.Errorf("while it is down: %v", err)
	}
	b.start()
	reach("the back end", false)
	b.stop()
	reach("failures again", true)
	b.start()
	reach("the back end again", false)
	closeAll(t, p)
	if err := p.Err(); err != nil {
		t.Error(err)
	}
	books(t, p, map[Signal]uint64{Metrics: rounds, Traces: given, Logs: given, Profiles: given})
	for _, what := range []string{"metrics", "spans", "log records", "profiles"} {
		for text, want := range map[string]int{"cannot export " + what: 2, "exporting " + what + " again": 2} {
			if n := log.count(`"` + text + `"`); n != want {
				t.Errorf("%q %d times, want %d\n%s", text, n, want, log.String())
			}
		}
	}
	if s := p.Stats(); s[Traces].Failed == 0 || s[Metrics].Failed == 0 || s[Logs].Failed == 0 || s[Profiles].Failed == 0 {
		t.Errorf("%+v", s)
	}
}

// TestSilent exports to a back end that accepts connections and never answers: no call waits, queues are bounded, and closing takes as
// long as its context.
func TestSilent(t *testing.T) {
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			env := map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "100", "OTEL_BLRP_MAX_QUEUE_SIZE": "100"}
			p := open(t, Options{Protocol: protocol, Endpoint: "http://" + l.Addr().String(), BatchSize: 10, FlushInterval: time.Millisecond, Metrics: onePoint,
				Lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok }})
			to := target(t, p, host)
			until(t, "an export of metrics", func() bool { return p.Stats()[Metrics].Queued == 1 })
			const n = 600
			for range n {
				sendOne(to)
				// The span, the log record and the profile before must not have been waited for. A call that waits fails the test by its timeout.
			}
			last := metric.Group{Identity: host, Points: make([]metric.Point, maxLast/2)}
			for i := range last.Points {
				last.Points[i] = metric.Goroutines.Of(1)
			}
			for range 3 {
				target(t, p, host).Close(last)
			}
			stats := p.Stats()
			if stats[Traces].Queued != 100 || stats[Logs].Queued != 100 || stats[Profiles].Queued != maxProfiles || stats[Metrics].Queued != maxLast+1 ||
				stats[Metrics].Dropped != maxLast/2 || stats[Traces].Dropped != n-100 {
				t.Errorf("%+v", stats)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := p.Close(ctx); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("close: %v", err)
			}
			books(t, p, map[Signal]uint64{Metrics: 1 + 3*maxLast/2, Traces: n, Logs: n, Profiles: n})
			for s, got := range p.Stats() {
				if got.Exported != 0 || got.Queued != 0 {
					t.Errorf("%s after closing: %+v", s, got)
				}
			}
		})
	}
}

// TestProfileBytes requires that profiles which wait are bounded in bytes, and that their bytes are free again when they are exported.
func TestProfileBytes(t *testing.T) {
	r := testcollector.Receive(t, nil)
	release := make(chan struct{})
	r.Respond(func(testcollector.Signal) (int64, error) { <-release; return 0, nil })
	p := open(t, Options{Protocol: "grpc", Endpoint: "http://" + r.GRPC, Signals: []Signal{Profiles}})
	to := target(t, p, host)
	large := heapProfile()
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	large.Comments = []string{string(noise)}
	for range 8 {
		to.Profile("heap", large)
	}
	s := p.Stats()[Profiles]
	if s.Dropped != 3 || s.Queued != 5 {
		t.Errorf("%+v", s)
	}
	close(release)
	until(t, "an empty queue", func() bool { return p.Stats()[Profiles].Queued == 0 })
	to.Profile("heap", large)
	closeAll(t, p)
	if s := p.Stats()[Profiles]; s.Exported != 6 || s.Dropped != 3 || p.profiles.waiting.Load() != 0 {
		t.Errorf("%+v, %d bytes", s, p.profiles.waiting.Load())
	}
}

// TestUnsupported exports profiles to a back end that does not take them: it is asked once, and then they become files.
func TestUnsupported(t *testing.T) {
	for protocol, endpoint := range protocols {
		for _, withDirectory := range []bool{true, false} {
			t.Run(fmt.Sprint(protocol, " directory ", withDirectory), func(t *testing.T) {
				r := testcollector.Receive(t, nil)
				r.Respond(func(testcollector.Signal) (int64, error) {
					if protocol == "grpc" {
						return 0, status.Error(codes.Unimplemented, "unknown service")
					}
					return 0, testcollector.HTTPStatus(404)
				})
				var log logBook
				o := Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC), Signals: []Signal{Profiles}, Log: log.log()}
				if withDirectory {
					o.Directory = t.TempDir()
				}
				p := open(t, o)
				to := target(t, p, host)
				to.Profile("cpu", heapProfile())
				until(t, "an answer", func() bool { return p.Stats()[Profiles].Queued == 0 })
				for range 3 {
					to.Profile("heap", heapProfile())
				}
				closeQuietly(p)
				if len(r.Headers()) != 1 || log.count("does not support profiles") != 1 {
					t.Errorf("%d requests\n%s", len(r.Headers()), log.String())
				}
				s := p.Stats()[Profiles]
				if !s.Since.IsZero() {
					t.Errorf("failing: %+v", s)
				}
				if !withDirectory {
					if s.Failed != 1 || s.Dropped != 3 || s.Err == "" {
						t.Errorf("%+v", s)
					}
					return
				}
				checkFiles(t, o.Directory, 4)
				checkStats(t, p, Profiles, exported(4))
			})
		}
	}
}

// TestUnsupportedByCollector exports profiles to a Collector that is not configured for them.
func TestUnsupportedByCollector(t *testing.T) {
	c := testcollector.StartWithoutProfiles(t)
	for protocol, endpoint := range protocols {
		var log logBook
		o := Options{Protocol: protocol, Endpoint: "http://" + endpoint(c.HTTP, c.GRPC), Directory: t.TempDir(), Log: log.log()}
		p := open(t, o)
		to := target(t, p, host)
		for range 3 {
			sendOne(to)
		}
		closeAll(t, p)
		for _, s := range []Signal{Traces, Logs, Profiles} {
			checkStats(t, p, s, exported(3))
		}
		if checkFiles(t, o.Directory, 3); log.count("does not support profiles") != 1 {
			t.Errorf("%s: %s", protocol, log.String())
		}
	}
}

// checkFiles checks that a directory has a number of profiles.
func checkFiles(t *testing.T, dir string, n int) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) != n {
		t.Errorf("%q (%v), want %d files", list, err, n)
	}
	for _, name := range list {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := parsed(t, data), heapProfile(); fmt.Sprint(stacksOf(got, 0)) != fmt.Sprint(stacksOf(want, 0)) || got.TimeNanos != want.TimeNanos {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOnlyFiles configures a directory without an endpoint.
func TestOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Options{Directory: dir})
	to := target(t, p, pod)
	for range 3 {
		sendOne(to)
	}
	closeAll(t, p)
	checkStats(t, p, Profiles, exported(3))
	checkFiles(t, dir, 3)
	if len(p.Stats()) != 1 {
		t.Errorf("%+v", p.Stats())
	}
}

// TestDiskFullCounted fills the disk: profiles are counted, which is one log line, and the next one that fits is written.
func TestDiskFullCounted(t *testing.T) {
	dir := testmount.New(t, "tmpfs", "size=4k")
	var log logBook
	p := open(t, Options{Directory: dir, Log: log.log()})
	to := target(t, p, pod)
	if err := os.WriteFile(dir+"/full", make([]byte, 4<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		to.Profile("cpu", heapProfile())
	}
	until(t, "failures", func() bool { return p.Stats()[Profiles].Failed == 3 })
	if s := p.Stats()[Profiles]; s.Since.IsZero() || !strings.Contains(s.Err, "no space left") || log.count("no space left") != 1 {
		t.Errorf("%+v\n%s", s, log.String())
	}
	if err := os.Remove(dir + "/full"); err != nil {
		t.Fatal(err)
	}
	to.Profile("cpu", heapProfile())
	closeAll(t, p)
	if s := p.Stats()[Profiles]; s.Exported != 1 || s.Failed != 3 || !s.Since.IsZero() || log.count("exporting profiles again") != 1 {
		t.Errorf("%+v\n%s", s, log.String())
	}
	checkFiles(t, dir, 1)
}

// TestBooks gives items from many goroutines to a back end that answers at random, and requires that each is counted once, and those
// that count as exported were received.
func TestBooks(t *testing.T) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			r.Answer(func([]testcollector.Span) (int, string, error) {
				if rand.IntN(3) == 0 {
					return 0, "", refusal(protocol)
				}
				return 0, "", nil
			})
			r.Respond(func(testcollector.Signal) (int64, error) {
				if rand.IntN(3) == 0 {
					return 0, refusal(protocol)
				}
				return 0, nil
			})
			env := map[string]string{"OTEL_BSP_MAX_QUEUE_SIZE": "64", "OTEL_BLRP_MAX_QUEUE_SIZE": "64"}
			points := uint64(0)
			p := open(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC), BatchSize: 8, FlushInterval: time.Millisecond,
				Lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
				Metrics: func(context.Context) []metric.Group {
					points += 18
					return []metric.Group{groupOf(host), groupOf(pod)}
				}})
			const workers, each = 4, 200
			var all sync.WaitGroup
			for range workers {
				all.Go(func() {
					to, err := p.Target(host)
					if err != nil {
						t.Error(err)
						return
					}
					for range each {
						sendOne(to)
					}
					to.Close(groupOf(host))
				})
			}
			all.Wait()
			closeQuietly(p)
			given := uint64(workers * each)
			books(t, p, map[Signal]uint64{Metrics: points + 9*workers, Traces: given, Logs: given, Profiles: given})
			stats := p.Stats()
			received := map[Signal]uint64{Traces: uint64(len(r.Spans())), Profiles: uint64(len(r.Profiles()))}
			for _, rl := range r.Logs() {
				received[Logs] += uint64(len(rl.GetScopeLogs()[0].GetLogRecords()))
			}
			for _, rm := range r.Metrics() {
				for _, m := range rm.GetScopeMetrics()[0].GetMetrics() {
					received[Metrics] += uint64(len(m.GetGauge().GetDataPoints()) + len(m.GetSum().GetDataPoints()) + len(m.GetExponentialHistogram().GetDataPoints()))
				}
			}
			for s, n := range received {
				if stats[s].Exported != n || stats[s].Queued != 0 {
					t.Errorf("%s: %+v, received %d", s, stats[s], n)
				}
			}
		})
	}
}

// refusal is an error that a request is not repeated after.
func refusal(protocol string) error {
	if protocol == "grpc" {
		return status.Error(codes.InvalidArgument, "no")
	}
	return testcollector.HTTPStatus(400)
}
