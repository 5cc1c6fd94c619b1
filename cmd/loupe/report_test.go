package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// serverEnv makes this test executable a healthy server until its stdin ends.
const serverEnv = "LOUPE_TEST_SERVER"

// TestReport reports on the sample program, whose leak the demo finds, as on any other program.
func TestReport(t *testing.T) {
	sample := strconv.Itoa(startSample(t))
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) { // until something has leaked
		_, out, _ := run(t, "goroutines", "--reason", "chan send", sample)
		if strings.Contains(out, "demo.askReplica") {
			break
		}
		if time.Since(begun) > patience {
			t.Fatal("the sample program leaks nothing")
		}
	}
	expectDemo(t, 2*time.Second, func(d time.Duration) (report demoReport) {
		decodeReport(t, &report, run, "report", sample, "--json", "--interval", d.String())
		return report
	})
}

// TestReportOfProgram has Loupe start the sample program, and ends it afterwards.
func TestReportOfProgram(t *testing.T) {
	expectDemo(t, 2*time.Second, func(d time.Duration) (report demoReport) {
		cmd := testcmd.Command(t, loupe, "report", "--json", "--after", d.String(), "--interval", d.String(), "--", loupe, "demo-program")
		stdin, stdout := startPiped(t, cmd)
		if err := json.NewDecoder(stdout).Decode(&report); err != nil {
			t.Fatal(err)
		}
		stdin.Close() // the program ends, and Loupe with it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return report
	})
}

// TestReportOfHealthyServer reports on a server under load: nothing leaks.
func TestReportOfHealthyServer(t *testing.T) {
	server := startServer(t)
	for _, args := range [][]string{{"--interval", "3s"}, {"--interval", "500ms"}, {"--live=false", "--interval", "1s"}} {
		for began := time.Now(); ; {
			var report demoReport
			stalled := longestStall(func() {
				decodeReport(t, &report, run, append([]string{"report", "--json", strconv.Itoa(server.Process.Pid)}, args...)...)
			})
			if report.After < 20 {
				t.Errorf("%q: %d goroutines", args, report.After)
			}
			if len(report.Suspects) == 0 {
				break
			}
			// If nothing runs between the two snapshots, nobody stops waiting.
			if stalled < 200*time.Millisecond || time.Since(began) > patience {
				t.Errorf("%q: suspects %+v; the longest stall took %v", args, report.Suspects, stalled)
				break
			}
		}
	}
}

// longestStall calls a function and returns the longest time meanwhile in which this process did not run although it was to.
func longestStall(f func()) time.Duration {
	over, result := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var longest time.Duration
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-over:
				result <- longest
				return
			case <-time.After(5 * time.Millisecond):
				longest = max(longest, time.Since(last))
			}
		}
	}()
	f()
	close(over)
	return <-result
}

// startServer starts a healthy server.
func startServer(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := testcmd.Within(t, 0, os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"=1")
	startTarget(t, cmd)
	return cmd
}

// serve is a healthy server with its clients: connections, a pool of workers on a channel, goroutines that come and go and
// wait for a lock, for each other and for a clock, and more of them from time to time.
func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	jobs := make(chan chan int)
	for range 8 {
		go func() {
			for answer := range jobs {
				answer <- 1
			}
		}()
	}
	var mu sync.Mutex
	handler := func(w http.ResponseWriter, r *http.Request) {
		var parts sync.WaitGroup
		for range 3 {
			parts.Go(func() {
				answer := make(chan int)
				jobs <- answer
				mu.Lock()
				time.Sleep(100 * time.Microsecond)
				mu.Unlock()
				<-answer
			})
		}
		parts.Wait()
		select {
		case <-time.After(time.Millisecond):
		case <-r.Context().Done():
		}
		fmt.Fprintln(w, "done")
	}
	go http.Serve(listener, http.HandlerFunc(handler))
	for i := range 10 {
		go load(context.Background(), "http://"+listener.Addr().String(), time.Duration(i)*2*time.Millisecond)
	}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// load makes one request after the other.
func load(ctx context.Context, url string, pause time.Duration) {
	client := http.Client{Transport: &http.Transport{}}
	for ctx.Err() == nil {
		resp, err := client.Get(url)
		if err != nil {
			continue
		}
		var text strings.Builder
		resp.Write(&text)
		resp.Body.Close()
		time.Sleep(pause)
	}
}
