//go:build loupe_glti

package glti

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// countedWork causes each of these events so often.
const countedWork = 300

// countable are events that countedWork causes, and that little else does.
var countable = []Event{EvGoCreate, EvGoEnd, EvGoBlockRecv, EvGoSched, EvGoSleep, EvGoSysCall, EvGoSysExit, EvGoBlockSync}

// countWork creates goroutines that do one of each.
func countWork() {
	var group, locked sync.WaitGroup
	values := make(chan int)
	for i := 0; i < countedWork; i++ {
		group.Add(1)
		locked.Add(1)
		go func() {
			defer group.Done()
			<-values
			runtime.Gosched()
			time.Sleep(time.Microsecond)
			syscall.Close(-1)
			locked.Wait() // until the last one has come here
		}()
	}
	time.Sleep(10 * time.Millisecond) // they wait
	for i := 0; i < countedWork; i++ {
		values <- i
	}
	for i := 0; i < countedWork; i++ {
		time.Sleep(10 * time.Microsecond)
		locked.Done()
	}
	group.Wait()
	time.Sleep(10 * time.Millisecond) // the last has ended
}

// TestPatchedCounts compares counters with what happened, and with callbacks.
func TestPatchedCounts(t *testing.T) {
	for _, called := range []bool{false, true} {
		env := patchedEnv(t)
		var calls [endEvent]atomic.Uint64
		counters := map[Event]*EventCounter{}
		for _, ev := range append([]Event{EvGCStart, EvGoStart, EvGoUnblock}, countable...) {
			if called {
				if _, err := env.Trace.Handle(ev, func(r Record) { calls[r.Event].Add(1) }); err != nil {
					t.Fatal(err)
				}
			}
			c, err := env.Trace.CountEvent(ev)
			if err != nil {
				t.Fatal(err)
			}
			counters[ev] = c
		}
		countWork()
		for _, ev := range countable {
			// The test and the runtime do some of it, too. On a busy machine there may be no need to wait.
			n, least, most := counters[ev].Count(), uint64(countedWork), uint64(2*countedWork)+200
			if ev == EvGoBlockRecv || ev == EvGoBlockSync {
				least = 1
			}
			if n < least || n > most {
				t.Errorf("%s, with callbacks %t: counted %d, want %d to %d", ev, called, n, least, most)
			}
		}
		runtime.GC() // it calls Gosched
		if gcs, starts, unblocks := counters[EvGCStart].Count(), counters[EvGoStart].Count(), counters[EvGoUnblock].Count(); gcs == 0 || starts < 3*countedWork || unblocks < countedWork {
			t.Errorf("counted %d collections, %d starts, %d ends of waits", gcs, starts, unblocks)
		}
		env.Trace.Flush()
		for ev, c := range counters {
			n, m := c.Count(), calls[ev].Load()
			if called && (n+20 < m || m+20 < n) { // some goroutines still wait, or waited before
				t.Errorf("%s: counted %d, %d calls", ev, n, m)
			}
			c.Unregister()
			c.Unregister()
		}
		n := counters[EvGoCreate].Count()
		countWork()
		if after := counters[EvGoCreate].Count(); after != n || n < countedWork {
			t.Errorf("counted %d after the counter ended, %d before", after, n)
		}
		env.Close()
	}
	if countedEvents != 0 {
		t.Errorf("events %#x are still counted", countedEvents)
	}
}

// TestPatchedCountsShared has two agents count the same event.
func TestPatchedCountsShared(t *testing.T) {
	one, two := patchedEnv(t), patchedEnv(t)
	first, err := one.Trace.CountEvent(EvGoCreate)
	if err != nil {
		t.Fatal(err)
	}
	countWork()
	second, err := two.Trace.CountEvent(EvGoCreate)
	if err != nil {
		t.Fatal(err)
	}
	one.Close()
	before := first.Count()
	countWork()
	if n := second.Count(); n < countedWork || n > countedWork+20 {
		t.Errorf("the second agent has counted %d, want %d", n, countedWork)
	}
	if n := first.Count(); n != before || n < countedWork {
		t.Errorf("the first agent has counted %d after it was closed, %d before", n, before)
	}
	if _, err := one.Trace.CountEvent(EvGoCreate); !errors.Is(err, ErrClosed) {
		t.Errorf("closed agent: %v", err)
	}
	for _, ev := range uncounted {
		if _, err := two.Trace.CountEvent(ev); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", ev, err)
		}
	}
	if c := capability("CountEvent"); !c.Available || c.Limits == "" {
		t.Errorf("capability %+v", c)
	}
}
