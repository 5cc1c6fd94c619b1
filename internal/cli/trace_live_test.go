package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// needLive skips a test where live events are not permitted.
func needLive(t *testing.T) {
	t.Helper()
	if missing := engineLacks(loupe.EngineAuto); missing != "" {
		t.Skip("live events need " + missing)
	}
}

// startSample starts the sample program, as the target of live events.
func startSample(t *testing.T) (pid string) {
	t.Helper()
	needLive(t)
	cmd := testcmd.Command(t, ownPath(), demoProgram)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	if _, err := io.ReadFull(stdout, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("the sample program does not start: %v", err)
	}
	return strconv.Itoa(cmd.Process.Pid)
}

// liveLine is what the live tests look at in a line of loupe trace --json.
type liveLine struct {
	traceLine
	Time             time.Time
	PID              int
	State            event.State
	CreatedBy, Start *event.Frame
}

func parseLive(t *testing.T, out string) []liveLine {
	t.Helper()
	var lines []liveLine
	for line := range strings.Lines(out) {
		var l liveLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 || lines[len(lines)-1].Kind != "Summary" {
		t.Fatalf("no summary: %s", out)
	}
	return lines
}

// holds reports whether a stack has a function whose name ends so.
func holds(stack []event.Frame, function string) bool {
	for _, f := range stack {
		if strings.HasSuffix(f.Func, function) {
			return true
		}
	}
	return false
}

// TestLiveTrace holds the stream of the sample program against what that program does.
func TestLiveTrace(t *testing.T) {
	pid := startSample(t)
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error { return checkLiveTrace(t, pid, d) })
}

// checkLiveTrace traces the sample program for a time. It returns an error if something was not seen.
func checkLiveTrace(t *testing.T, pid string, d time.Duration) error {
	t.Helper()
	r := run(t, machine{}, "trace", pid, "--json", "--duration", d.String())
	if r.status != exitDone || testcmd.WithoutMachineNotes(r.errOut) != "" {
		t.Fatalf("status %d, stderr %q", r.status, r.errOut)
	}
	lines := parseLive(t, r.out)
	sum := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	seen := map[string]bool{}
	last := map[uint64]time.Time{}
	counts := map[string]int{}
	for _, l := range lines {
		counts[l.Kind]++
		if strconv.Itoa(l.PID) != pid || l.Time.IsZero() {
			t.Fatalf("%+v", l)
		}
		if l.G != 0 {
			if l.Time.Before(last[l.G]) {
				t.Errorf("goroutine %d goes back in time, by %v: %+v", l.G, last[l.G].Sub(l.Time), l)
			}
			last[l.G] = l.Time
		}
		switch {
		case l.Kind == "GoStatus" && l.G == 1 && l.State == event.StateWaiting:
			seen["main"] = true
		case l.Kind == "GoCreate" && l.CreatedBy != nil && strings.HasSuffix(l.CreatedBy.Func, "demo.search") && l.Parent != 0 && holds(l.Stack, "demo.search"):
			seen["search"] = true
		case l.Kind == "GoBlock" && l.Reason == "sync.Mutex.Lock" && holds(l.Stack, "demo.(*ledger).audit"):
			seen["lock"] = true
		case l.Kind == "GoBlock" && l.Reason == "chan send" && holds(l.Stack, "demo.askReplica"):
			seen["leak"] = true
		case l.Kind == "GoUnblock" && l.By != 0 && holds(l.Stack, "demo.(*ledger).audit"):
			seen["unlock"] = true
		}
	}
	if sum.Events != uint64(len(lines)) || sum.Lost != 0 || *sum.Created != counts["GoCreate"] || *sum.Ended != counts["GoDestroy"] ||
		*sum.Goroutines != counts["GoStatus"]+counts["GoCreate"]-counts["GoDestroy"] {
		t.Errorf("%+v of %v", sum, counts)
	}
	for _, want := range []string{"main", "search", "lock", "leak", "unlock"} {
		if !seen[want] {
			return fmt.Errorf("nothing of %s in %d lines: %v", want, len(lines), counts)
		}
	}
	return nil
}

// TestLiveTraceInterrupted ends an observation as Ctrl-C does.
func TestLiveTraceInterrupted(t *testing.T) {
	pid := startSample(t)
	in, out := io.Pipe()
	var errOut lockedBuffer
	a := &app{Env: Env{Args: []string{"trace", pid, "--json", "--kinds", "goroutine"}, Stdin: strings.NewReader(""), Stdout: out, Stderr: &errOut, Getenv: os.Getenv}, system: machine{}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	status := make(chan int)
	go func() {
		status <- a.run(ctx)
		out.Close()
	}()
	lines := json.NewDecoder(in)
	for {
		var l liveLine
		if err := lines.Decode(&l); err != nil {
			t.Fatalf("%v, stderr %q", err, errOut.String())
		}
		if l.Kind == "GoUnblock" {
			stop()
		}
		if l.Kind == "Summary" {
			break
		}
	}
	go io.Copy(io.Discard, in)
	if s := <-status; s != exitDone || testcmd.WithoutMachineNotes(errOut.String()) != "" {
		t.Errorf("status %d, stderr %q", s, errOut.String())
	}
}

// TestLiveTraceFilters lets the engine choose.
func TestLiveTraceFilters(t *testing.T) {
	pid := startSample(t)
	testcmd.UntilSeen(t, time.Second, func(d time.Duration) error {
		r := run(t, machine{}, "trace", pid, "--json", "--duration", d.String(), "--kinds", "GoBlock,GoUnblock", "--min-block", "20ms", "--stack", "0", "-q")
		lines := parseLive(t, r.out)
		if r.status != exitDone {
			t.Fatalf("%+v", r)
		}
		for _, l := range lines[:len(lines)-1] {
			if l.Kind != "GoBlock" && l.Kind != "GoUnblock" || len(l.Stack) > 0 {
				t.Errorf("%+v", l)
			}
		}
		if len(lines) < 2 {
			return fmt.Errorf("no waits in %+v", r)
		}
		return nil
	})
}

// TestLiveTraceProgram observes a program from its first goroutine to its end, and passes on its exit status.
func TestLiveTraceProgram(t *testing.T) {
	needLive(t)
	r := run(t, machine{}, "trace", "-q", "--json", "--", ownPath(), demoProgram) // it ends at once: its stdin is empty
	lines := parseLive(t, r.out)
	sum := lines[len(lines)-1]
	if r.status != exitDone || testcmd.WithoutMachineNotes(r.errOut) != "ready\n" {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
	if *sum.Created == 0 || sum.Lost != 0 {
		t.Errorf("%+v", sum)
	}
	created := map[uint64]bool{}
	for _, l := range lines[:len(lines)-1] {
		switch l.Kind {
		case "GoCreate":
			created[l.G] = true
		case "GoStatus":
			t.Errorf("a goroutine was there before the program's first: %+v", l)
		case "GoStart", "GoBlock", "GoDestroy":
			if !created[l.G] {
				t.Errorf("the creation of goroutine %d was missed: %+v", l.G, l)
			}
		}
	}
	if r := run(t, machine{}, "trace", "-q", "--json", "--", ownPath(), demoProgram, "--nonsense"); r.status != exitUsage || !strings.Contains(r.errOut, "unknown flag") {
		t.Errorf("the program's exit status: %+v", r)
	}
	if r := run(t, machine{}, "trace", "-q", "--", "true"); r.status != exitUnobservable || !strings.Contains(r.errOut, "not a Go program") {
		t.Errorf("no Go program: %+v", r)
	}
}

// TestLiveProfiles takes a profile of each type of the sample program.
func TestLiveProfiles(t *testing.T) {
	pid := startSample(t)
	file := filepath.Join(t.TempDir(), "p")
	for kind, function := range map[string]string{"create": "demo.search", "block": "demo.packOrders", "mutex": "demo.(*ledger).audit", "sched": "demo.heartbeat"} {
		testcmd.UntilSeen(t, time.Second, func(d time.Duration) error {
			r := run(t, machine{}, "profile", pid, "--type", kind, "--duration", d.String(), "-o", file, "-q")
			if r.status != exitDone || r.errOut != "" {
				t.Fatalf("%s: %+v", kind, r)
			}
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := profile.Parse(bytes.NewReader(doc))
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Sample {
				for _, l := range s.Location {
					if strings.HasSuffix(l.Line[0].Function.Name, function) && s.Value[len(s.Value)-1] > 0 {
						return nil
					}
				}
			}
			return fmt.Errorf("%s: nothing of %s in\n%s", kind, function, p)
		})
	}
}

func TestLiveDemo(t *testing.T) {
	needLive(t)
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error {
		r := run(t, machine{}, "demo", "--json", "--duration", d.String())
		var doc struct {
			Live struct {
				Refused   string
				Events    uint64
				Created   []struct{ Count uint64 }
				Latency   struct{ P99Nanoseconds int64 }
				Contended []struct{ Place event.Frame }
			}
		}
		if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitDone {
			t.Fatalf("%v: %+v", err, r)
		}
		l := doc.Live
		if l.Refused != "" || l.Events == 0 || len(l.Created) == 0 || l.Latency.P99Nanoseconds == 0 || len(l.Contended) == 0 || !strings.HasSuffix(l.Contended[0].Place.Func, "audit") {
			return fmt.Errorf("%+v", l)
		}
		return nil
	})
}

// TestLiveTraceLoss loses most events of a program that makes goroutines at full speed: the number of those that are alive at
// the end is right all the same.
func TestLiveTraceLoss(t *testing.T) {
	_, pid := startTarget(t, "churn", "2")
	var sum traceLine
	for duration := 500 * time.Millisecond; sum.Lost == 0; duration *= 2 { // where it gets little of a processor, the reader keeps up
		r := run(t, machine{}, "trace", pid, "-q", "--json", "--duration", duration.String(), "--buffer", "64KiB", "--kinds", "GoStatus,GoCreate,GoDestroy")
		lines := parseLive(t, r.out)
		if sum = lines[len(lines)-1].traceLine; r.status != exitDone || sum.Lost == 0 && duration > 10*time.Second {
			t.Fatalf("status %d, nothing was lost: %+v", r.status, sum)
		}
	}
	const most = 200 // churn has a few dozens
	if sum.GoroutinesUncertain || *sum.Goroutines < 3 || *sum.Goroutines > most {
		t.Errorf("%d goroutines are alive (uncertain: %v), after %d lost events", *sum.Goroutines, sum.GoroutinesUncertain, sum.Lost)
	}
}
