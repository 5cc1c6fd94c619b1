package cli

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// startTarget starts a program that tests look at. Its PID is its name on a command line.
func startTarget(t *testing.T, program string, args ...string) (*testtarget.Process, string) {
	t.Helper()
	needLive(t)
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: program}), args...)
	return target, strconv.Itoa(target.PID())
}

// TestLiveTopMill does known work in front of the live view.
func TestLiveTopMill(t *testing.T) {
	target, pid := startTarget(t, "mill")
	m := newTerminal(t, 120, 40)
	over := onTerminal(t, m, machine{}, nil, "top", pid, "--interval", "200ms")
	m.await("mill", "pid "+pid, "go"+testtarget.Latest(), "none lost", "LIVE▼", "runtime.main", "1 sites")
	m.press("3")
	target.Command("locks 25")
	m.await("sync.Mutex.Lock", "main.(*mill).locks.func1")
	m.press("1")
	target.Command("spawn 1000")
	m.press("5")
	m.await("created", "1,0") // 25 for the locks, and 1000

	target.Command("threads 3")
	m.press("1/mill).hold\r")
	m.await("main.(*mill).hold", "1-1 of 1")
	m.press("\r")
	m.await("sites › main.(*mill).hold", "1-3 of 3")
	m.press("\r")
	m.await("› goroutine ", "CREATED", "main.(*mill).threads", "HISTORY")
	target.Command("threads 0")
	m.await("ended")
	m.press("\x1b")
	m.await("none")

	m.resize(80, 24)
	m.await("esc back", "none lost")
	target.Stop()
	m.await("ENDED", "process "+pid+" has exited")
	m.press("q")
	if r := <-over; r.status != exitDone || testcmd.WithoutMachineNotes(r.errOut) != "" {
		t.Errorf("%+v", r)
	}
	m.understood()
}

// TestLiveTopAllocs shows the heap and the allocations of a program that allocates all the time.
func TestLiveTopAllocs(t *testing.T) {
	_, pid := startTarget(t, "churn", "1")
	// The books and the counters are read one after the other. The longer the interval, the less this matters.
	testcmd.UntilSeen(t, 500*time.Millisecond, func(interval time.Duration) error { return checkTopAllocs(t, pid, interval) })
	m := newTerminal(t, 120, 30)
	over := onTerminal(t, m, machine{}, nil, "top", pid, "--interval", "200ms", "--buffer", "64MiB", "--allocs")
	m.await("memory     heap ", "GC cycles", "ALLOC/S", "GC BY ALLOC", "▸") // Enter needs a row
	m.press("\r")
	m.await(" allocated ", "objects/s", "GC wait")
	m.press("q")
	if r := <-over; r.status != exitDone {
		t.Errorf("%+v", r)
	}
}

// checkTopAllocs compares the allocations that top shows with those of its sites, and with the memory statistics.
func checkTopAllocs(t *testing.T, pid string, interval time.Duration) error {
	t.Helper()
	r := run(t, machine{}, "top", pid, "--json", "-n", "2", "--interval", interval.String(), "--buffer", "64MiB", "--allocs")
	var l struct {
		Memory struct{ HeapBytes, GoalBytes, AllocBytesPerSecond float64 }
		Allocs struct{ BytesPerSecond, ObjectsPerSecond, ElsewhereBytes, Bytes float64 }
		Sites  []struct {
			Start               *event.Frame
			AllocBytesPerSecond float64
		}
	}
	_, last, _ := strings.Cut(r.out, "\n")
	if err := json.Unmarshal([]byte(last), &l); err != nil || r.status != exitDone {
		t.Fatalf("%v, %+v", err, r)
	}
	sum := 0.0
	for _, s := range l.Sites {
		sum += s.AllocBytesPerSecond
	}
	counted, books := l.Allocs.BytesPerSecond, l.Memory.AllocBytesPerSecond
	t.Logf("counted %.0f bytes/s, %.0f of sites, %.0f by the memory statistics; elsewhere %.0f of %.0f bytes", counted, sum, books, l.Allocs.ElsewhereBytes, l.Allocs.Bytes)
	if l.Memory.HeapBytes <= 0 || l.Memory.GoalBytes <= 0 || counted <= 0 || sum < 0.9*counted || sum > counted+1 || books < 0.7*counted || books > 1.3*counted {
		return errors.New(last)
	}
	return nil
}

// TestLiveTopSlowTerminal does not read what the view writes for a while. No event is lost for that.
func TestLiveTopSlowTerminal(t *testing.T) {
	target, pid := startTarget(t, "mill")
	m := newTerminal(t, 120, 40)
	over := onTerminal(t, m, machine{}, nil, "top", pid, "--interval", "100ms")
	m.await("LIVE▼", "created/s")
	m.stall()
	m.press("5")
	for range 40 { // more than a terminal takes without being read
		target.Command("spawn 500")
		m.press("12345")
	}
	m.goOn()
	created := regexp.MustCompile(`created +[\d,]+ .* created +([\d,]+) `)
	m.await("20,000")
	if found := created.FindStringSubmatch(m.screen()); found == nil || found[1] != "20,000" {
		t.Errorf("%q in\n%s", found, m.screen())
	}
	m.await("none lost")
	m.press("q")
	if r := <-over; r.status != exitDone || testcmd.WithoutMachineNotes(r.errOut) != "" {
		t.Errorf("%+v", r)
	}
}

// TestLiveTopFlood looks at many goroutines.
func TestLiveTopFlood(t *testing.T) {
	const goroutines = 20_000
	_, pid := startTarget(t, "flood", strconv.Itoa(goroutines), "0")
	m := newTerminal(t, 120, 30)
	over := onTerminal(t, m, machine{}, nil, "top", pid, "--interval", "200ms")
	m.await("5,000", "main.(*lot).receiver", "main.(*lot).sleeper", "main.(*lot).locker", "main.(*lot).selector")
	m.press("2")
	m.await("sync.Mutex.Lock", "chan receive", "select", "sleep", "25%")
	m.press("4")
	m.await("1-18 of 20,00")
	m.press("/lot).locker\r")
	m.await("1-18 of 5,000", "sync.Mutex.Lock")
	m.press("q")
	if r := <-over; r.status != exitDone {
		t.Errorf("%+v", r)
	}
}

// TestLiveTopChurn watches goroutines come and go, as JSON and on the terminal.
func TestLiveTopChurn(t *testing.T) {
	_, pid := startTarget(t, "churn", "1")
	testcmd.UntilSeen(t, 500*time.Millisecond, func(interval time.Duration) error {
		r := run(t, machine{}, "top", pid, "--json", "-n", "2", "--interval", interval.String(), "--buffer", "64MiB")
		lines := parseTop(t, r.out)
		if r.status != exitDone || len(lines) != 2 {
			t.Fatalf("%+v", r)
		}
		l := lines[1]
		worker := false
		for _, s := range l.Sites {
			worker = worker || s.Start != nil && strings.HasSuffix(s.Start.Func, ".worker") && s.CreatedPerSecond > 0
		}
		if l.GoVersion != "go"+testtarget.Latest() || l.Created == 0 || l.Ended == 0 || !worker || l.SchedulerLatency.Interval.Count == 0 {
			return errors.New(r.out)
		}
		return nil
	})
	m := newTerminal(t, 120, 30)
	over := onTerminal(t, m, machine{}, nil, "top", pid, "--interval", "200ms", "--buffer", "64MiB")
	m.await("main.(*tally).worker", "main.(*tally).spawner main.go:")
	m.press("q")
	if r := <-over; r.status != exitDone {
		t.Errorf("%+v", r)
	}
}

// TestLiveTopProgram shows a program from its first goroutine until it has ended, and passes on its exit status.
func TestLiveTopProgram(t *testing.T) {
	needLive(t)
	m := newTerminal(t, 80, 24)
	over := onTerminal(t, m, machine{}, nil, "top", "--", ownPath(), demoProgram, "--nonsense")
	m.await("ENDED", "exited with status 2")
	m.press("q")
	if r := <-over; r.status != exitUsage || !strings.Contains(r.errOut, "unknown flag") {
		t.Errorf("%+v", r)
	}
}
