package loupe_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestTortureCycles attaches each engine to a busy program and detaches it, many times in one process: 1,000 times in `make torture`.
// Neither process has more files, threads, mappings, goroutines or memory after the second half than after the first.
func TestTortureCycles(t *testing.T) {
	cycles := 8
	switch {
	case thorough():
		cycles = 1000
	case testtarget.Complete():
		cycles = 16
	}
	for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
		t.Run(string(engine), func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer", Stripped: true}))
			expectWork(t, p)
			events, began := 0, time.Now()
			for range cycles / 2 {
				events += attachAndDetach(t, p.PID(), engine)
			}
			target, own := restingHoldings(t, p), ownHoldings(t)
			for range cycles / 2 {
				events += attachAndDetach(t, p.PID(), engine)
			}
			now, ownNow := restingHoldings(t, p), ownHoldings(t)
			now.expectAs(t, target)
			now.expectNoMoreThan(t, target)
			t.Logf("%d cycles in %v, %d events; Loupe has %v, after half of them %v", cycles, time.Since(began).Round(time.Millisecond), events, ownNow, own)
			if events == 0 {
				t.Error("no events")
			}
			// The runtime and libraries keep a few objects for later use, which does not depend on the number of cycles, and the
			// runtime may start some more threads on a busy machine.
			if ownNow.files > own.files || ownNow.goroutines > own.goroutines+2 || ownNow.threads > own.threads+4+cycles/4 ||
				ownNow.mappings > own.mappings+20+cycles/4 || ownNow.heap > own.heap+256<<10 {
				t.Errorf("Loupe has %v, after half of the cycles %v", ownNow, own)
			}
		})
	}
}

// attachAndDetach observes a process for a moment, and returns the number of events.
func attachAndDetach(t *testing.T, pid int, engine loupe.Engine) (events int) {
	t.Helper()
	s, err := loupe.Attach(t.Context(), loupe.PID(pid), loupe.Options{Engine: engine, Kinds: event.KindsDefault, BufferBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range s.Events() {
			events++
		}
	}()
	time.Sleep(5 * time.Millisecond)
	if err := s.Detach(); err != nil {
		t.Error(err)
	}
	<-done
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return events
}

// ownUse is what the process of the test has: files, threads, mappings, goroutines, and bytes of live heap objects.
type ownUse struct{ files, threads, mappings, goroutines, heap int }

func (u ownUse) String() string {
	return fmt.Sprintf("%d files, %d threads, %d mappings, %d goroutines, %d bytes", u.files, u.threads, u.mappings, u.goroutines, u.heap)
}

// ownHoldings waits for what ends a little after a session is closed.
func ownHoldings(t *testing.T) ownUse {
	t.Helper()
	for range 3 { // finalizers run after the first
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
	}
	count := func(dir string) int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return ownUse{count("/proc/self/fd"), count("/proc/self/task"), len(mapsOf(t, os.Getpid())), runtime.NumGoroutine(), int(m.HeapAlloc)}
}
