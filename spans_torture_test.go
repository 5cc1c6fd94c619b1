package loupe_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// loadVariable names the server that sendLoad sends requests to, and their number and that of the connections.
const loadVariable = "LOUPE_TEST_LOAD"

// TestTortureSpans counts the spans of many requests on many connections at once, with both engines: none is missing. `make torture`
// sends 100,000 requests on 1,000 connections.
func TestTortureSpans(t *testing.T) {
	requests, conns := 4000, 100
	if *torture >= 10*time.Second {
		requests, conns = 100_000, 1000
	}
	spec := testtarget.Spec{Program: "web", Go: testtarget.Latest()}
	for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
		t.Run(string(engine), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			t.Cleanup(target.Stop)
			addr := strings.Fields(target.Command("address"))[1]
			c := &spanCounter{}
			s := attach(t, target.PID(), loupe.Options{Engine: engine, Spans: loupe.SpanOptions{Handle: c.add, Reuse: true}})
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range s.Events() {
				}
			}()
			debug.FreeOSMemory()
			if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // residentMB begins anew
				t.Fatal(err)
			}
			before, began := cpuOfTest(t), time.Now()
			load := testcmd.Command(t, os.Args[0])
			load.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", loadVariable, addr, requests, conns))
			if out, err := load.Output(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			took := time.Since(began)
			err := s.Detach()
			<-done
			counts, countErr := s.SpanCounts()
			if err != nil || countErr != nil || s.Err() != nil {
				t.Error(err, countErr, s.Err())
			}
			cpu := cpuOfTest(t) - before
			stats := s.Stats()
			t.Logf("%d spans of %d requests on %d connections in %v (%.0f/s): %d uncertain, %d notes and %d of %d events lost, %d goroutines unlisted; "+
				"observer: %.1f µs of CPU time for each request, %d MB resident", c.ended.Load(), requests, conns, took.Round(time.Millisecond), float64(requests)/took.Seconds(),
				counts.Uncertain, counts.Notes.Lost, stats.Lost, stats.Events+stats.Lost, counts.Unlisted, cpu.Seconds()*1e6/float64(requests), residentMB(t))
			if n := c.ended.Load(); n != int64(requests) || c.wrong.Load() != 0 || counts.Unlisted != 0 || stats.Lost != 0 {
				t.Errorf("%d spans of %d requests, %d of them wrong: %+v, %+v", n, requests, c.wrong.Load(), counts, stats)
			}
		})
	}
}

// spanCounter counts spans.
type spanCounter struct{ ended, wrong atomic.Int64 }

func (c *spanCounter) add(s *spans.Span) {
	c.ended.Add(1)
	d := time.Duration(s.End - s.Start)
	if s.Ending != spans.Returned || s.Work.Own.Total() != d || s.Work.Own[spans.Sleep] == 0 || d < 19*time.Millisecond {
		c.wrong.Add(1)
	}
}

// sendLoad is the client of TestTortureSpans, in a process of its own. It returns the exit status.
func sendLoad(value string) int {
	var addr string
	var requests, conns int
	if _, err := fmt.Sscan(value, &addr, &requests, &conns); err != nil {
		fmt.Println(err)
		return 1
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range conns {
		all.Go(func() {
			for next.Add(1) <= int64(requests) {
				resp, err := client.Get("http://" + addr + "/pause")
				if err != nil {
					fmt.Println(err)
					failed.Add(1)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	return int(min(failed.Load(), 1))
}

func cpuOfTest(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMB returns the largest resident memory of this process.
func residentMB(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kB int64
	fmt.Sscan(rest, &kB)
	return kB >> 10
}
