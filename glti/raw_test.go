//go:build loupe_glti

package glti

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// rawTarget is the goroutine whose raw events are counted.
var (
	rawTarget uint64
	rawCounts [endEvent + 64]uint64
	rawLast   int64
	rawWrong  uint64
)

// countRaw counts the events of one goroutine, which has one at a time.
//
//go:norace
func countRaw(r *RawRecord) {
	if r.G.ID != rawTarget {
		return
	}
	rawCounts[r.Event%64]++
	if r.Time < rawLast {
		rawWrong++
	}
	rawLast = r.Time
}

// TestPatchedRaw compares the raw events of a goroutine with those that are delivered later.
func TestPatchedRaw(t *testing.T) {
	env := patchedEnv(t)
	wanted := []Event{EvGoStart, EvGoSleep, EvGoBlockRecv, EvGoSysCall, EvGoSysExit}
	var later [endEvent]atomic.Uint64
	self := make(chan uint64)
	done := make(chan bool)
	work := make(chan bool)
	go func() {
		self <- impl.current().ID
		<-work
		for i := 0; i < 100; i++ {
			<-work
			syscall.Close(-1)
			time.Sleep(time.Microsecond)
		}
		close(done)
		select {} // it does not end while its events are compared
	}()
	rawTarget, rawCounts, rawLast, rawWrong = <-self, [endEvent + 64]uint64{}, 0, 0
	var removed []*Registration
	for _, ev := range wanted {
		r, err := env.Trace.HandleRaw(ev, countRaw)
		if errors.Is(err, errRawCalls) && testing.CoverMode() != "" {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		removed = append(removed, r)
		if _, err := env.Trace.Handle(ev, func(r Record) {
			if r.G.ID == rawTarget {
				later[r.Event].Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 101; i++ {
		time.Sleep(100 * time.Microsecond)
		work <- true
	}
	<-done
	time.Sleep(10 * time.Millisecond)
	env.Trace.Flush()
	for _, ev := range wanted {
		// The goroutine may have waited already when the callbacks were registered.
		if raw, n := rawCounts[ev], later[ev].Load(); raw == 0 || raw > n+1 || n > raw+1 {
			t.Errorf("%s: %d raw calls, %d later", ev, raw, n)
		}
	}
	if rawCounts[EvGoSleep] != 100 || rawCounts[EvGoSysCall] < 100 || rawWrong != 0 {
		t.Errorf("%d sleeps and %d system calls, expected 100; %d times that go back", rawCounts[EvGoSleep], rawCounts[EvGoSysCall], rawWrong)
	}
	for _, r := range removed {
		r.Unregister()
	}
	if mask := raws.list; mask != [16]*rtRaw{} {
		t.Error("raw callbacks remain")
	}
}

func TestPatchedRawRefused(t *testing.T) {
	env := patchedEnv(t)
	for name, cb := range refusedRaw {
		if _, err := env.Trace.HandleRaw(EvGoStart, cb); !errors.Is(err, errRawCalls) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := env.Trace.HandleRaw(EvGoCreate, allowedRaw["nothing"]); !errors.Is(err, ErrUnavailable) {
		t.Errorf("GoCreate: error %v", err)
	}
	if c := capability("HandleRaw"); !c.Available || c.Class != ClassB || c.Limits == "" {
		t.Errorf("capability %+v", c)
	}
}
