package glti

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// collectReports returns the reports until the test ends, instead of printing them.
func collectReports(t *testing.T) func() []Report {
	var mu sync.Mutex
	var reports []Report
	SetReportHandler(func(r Report) {
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, r)
	})
	t.Cleanup(func() { SetReportHandler(nil) })
	return func() []Report {
		mu.Lock()
		defer mu.Unlock()
		return append([]Report(nil), reports...)
	}
}

// failOnReport makes the test fail for each report.
func failOnReport(t *testing.T) {
	SetReportHandler(func(r Report) { t.Error(r) })
	t.Cleanup(func() { SetReportHandler(nil) })
}

// current returns the current goroutine.
func current() G { return impl.current() }

// waitState waits until a goroutine is in a state, as a traceback spells it.
func waitState(t *testing.T, g G, state string) {
	t.Helper()
	want := []byte(fmt.Sprintf("goroutine %d [%s", g.ID, state))
	buf := make([]byte, 1<<20)
	for {
		stacks := buf[:runtime.Stack(buf, true)]
		if bytes.Contains(stacks, want) {
			return
		}
		if !bytes.Contains(stacks, []byte(fmt.Sprintf("goroutine %d [", g.ID))) {
			t.Fatalf("goroutine %d has ended", g.ID)
		}
		time.Sleep(time.Millisecond)
	}
}

// started runs f in a goroutine and returns which.
func started(f func()) G {
	id := make(chan G, 1)
	go func() {
		id <- current()
		f()
	}()
	return <-id
}

// blocked runs f in a goroutine and waits until it is in a state.
func blocked(t *testing.T, state string, f func()) G {
	t.Helper()
	g := started(f)
	waitState(t, g, state)
	return g
}

// ended waits until a goroutine has ended.
func ended(g G) {
	buf := make([]byte, 1<<20)
	for bytes.Contains(buf[:runtime.Stack(buf, true)], []byte(fmt.Sprintf("goroutine %d [", g.ID))) {
		time.Sleep(time.Millisecond)
	}
}

// lockOnce waits for a mutex.
func lockOnce(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}
