package goproc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// counts are the counts of a histogram by lower bound, in nanoseconds.
type counts map[int64]uint64

func countsOf(list []event.DurationCount) counts {
	c := counts{}
	for _, d := range list {
		c[int64(d.Low)] += d.Count
	}
	return c
}

// within reports whether the counts lie between those of two readings before and after.
func (c counts) within(before, after counts) bool {
	for low, n := range c {
		if n < before[low] || n > after[low] {
			return false
		}
	}
	for low, n := range before {
		if c[low] < n {
			return false
		}
	}
	return true
}

// runtimeHistogram returns a metric of runtime/metrics as the target itself reads it, or nil.
func runtimeHistogram(t *testing.T, target *testtarget.Process, name string) counts {
	t.Helper()
	fields := strings.Fields(target.Command("histogram " + name))[1:]
	if len(fields) == 1 && fields[0] == "none" {
		return nil
	}
	c := counts{}
	for _, f := range fields {
		var low int64
		var n uint64
		if _, err := fmt.Sscanf(f, "%d:%d", &low, &n); err != nil {
			t.Fatal(err)
		}
		c[low] += n
	}
	return c
}

// TestScheduler compares the numbers of the scheduler with those that the program itself has.
func TestScheduler(t *testing.T) {
	for _, version := range testtarget.Versions() {
		spec := testtarget.Spec{Program: "colony", Go: version, Stripped: true}
		t.Run(version, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			read := func() *event.Scheduler {
				t.Helper()
				s, err := p.Scheduler()
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			target.Command("gc") // starts the goroutines of the collector
			target.Command("hold 10")
			target.Command("free")
			before := read()
			const held = 1000
			target.Command(fmt.Sprint("hold ", held))
			during := read()
			if n := target.Command("num"); fmt.Sprint(during.Goroutines) != n {
				t.Errorf("%d goroutines, want %s", during.Goroutines, n)
			}
			// The runtime starts goroutines of its own, such as for timers before Go 1.14.
			made := func(a, b *event.Scheduler) int { return int(b.Created-a.Created) - (b.System - a.System) }
			if created, ended := made(before, during), during.Ended()-before.Ended(); created != held || ended != 0 {
				t.Errorf("%d goroutines created and %d ended, want %d and 0", created, ended, held)
			}
			target.Command("free")
			after := read()
			if created, ended := made(during, after), after.Ended()-during.Ended(); created != 0 || ended != held {
				t.Errorf("%d goroutines created and %d ended, want 0 and %d", created, ended, held)
			}
			target.Command("gc")
			minor := p.Binary().Version().Minor
			compareHistogram(t, target, "/sched/latencies:seconds", minor >= 17, func() []event.DurationCount { return read().TimeToRun })
			compareHistogram(t, target, "/sched/pauses/total/gc:seconds", minor >= 22, func() []event.DurationCount { return read().GCPauses })
		})
	}
}

// compareHistogram compares a histogram with what the target itself reads between two readings.
func compareHistogram(t *testing.T, target *testtarget.Process, name string, has bool, read func() []event.DurationCount) {
	t.Helper()
	before := countsOf(read())
	want := runtimeHistogram(t, target, name)
	after := countsOf(read())
	switch {
	case has != (want != nil):
		t.Errorf("%s: %v", name, want)
	case !has:
		if len(before) != 0 {
			t.Errorf("%s is %v, although the runtime has none", name, before)
		}
	case len(want) == 0:
		t.Errorf("%s is empty", name)
	case !want.within(before, after):
		t.Errorf("%s is %v, before it was %v and after %v", name, want, before, after)
	}
}
