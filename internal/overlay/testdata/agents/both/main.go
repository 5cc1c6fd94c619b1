// Command both compares the events that Go callbacks get with those of native agents, one by one.
package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"sync"
	"time"

	"agents/script"

	"github.com/loupe-go/loupe/glti"
)

// Numbers of events, as in the runtime. Those below 5, and the bit onlyUser of the mask, are of streams, which must not change what native
// agents receive.
const (
	onlyUser = 1
	goPark   = 2
	goYield  = 3
	goReady  = 4
	create   = 13
	start    = 14
	unblock  = 21
	sysExit  = 29

	waiting, inSyscall = 31, 32

	startLabel = 41
)

// locals are the events that say that a goroutine is on the processor of its last event.
var locals = map[uint8]uint8{start: 38, unblock: 39, sysExit: 40}

// workers are the labels of the workers of the collector.
var workers = []string{1: "GC (dedicated)", 2: "GC (fractional)", 3: "GC (idle)"}

func event(r glti.Record) script.Event {
	return script.Event{Number: r.Event, Late: r.Late, Time: r.Time, End: r.End, G: r.Goid, By: r.ByGoid, Args: r.Args}
}

func main() {
	debug.SetGCPercent(-1) // as in script.Run
	var mu sync.Mutex
	var got []script.Event
	add := func(r glti.Record) {
		mu.Lock()
		defer mu.Unlock()
		switch r.Event {
		case goPark, goYield, goReady: // for streams
			return
		case create, start, unblock, sysExit: // the arguments are for package glti
			marks := r.Args[1]
			r.Args = [2]uint64{}
			e := event(r)
			if e.Number = locals[r.Event]; e.Number != 0 && marks&1 != 0 {
				got = append(got, e)
			}
			if e.Number = startLabel; r.Event == start && marks > 1 {
				e.Text[0] = workers[marks>>1]
				got = append(got, e)
			}
		}
		got = append(got, event(r))
	}
	agents := script.Agents()
	glti.Deliver(add)
	glti.EnableMask(1<<45 - 1<<onlyUser)
	done, drained := make(chan bool), make(chan bool)
	go func() {
		glti.Quiet()
		for end := false; !end; {
			select {
			case <-done:
				end = true
			case <-time.After(time.Millisecond):
			}
			for _, r := range glti.Drain() {
				add(r)
			}
		}
		close(drained)
	}()
	all := script.Run()
	lost := map[string]uint64{}
	for _, agent := range agents {
		lost[agent] = script.Lost(agent)
	}
	glti.EnableMask(1 << start) // also of goroutines of the runtime
	for i := 0; i < 5; i++ {    // the sweeper yields thousands of times: some events may be lost
		time.Sleep(10 * time.Millisecond)
		runtime.GC()
	}
	close(done)
	<-drained
	glti.Enable()
	script.Check(glti.Lost() == 0, "lost", glti.Lost())
	want, labels := only(got, all), labeled(got)
	script.Check(len(labels) > 0, "no labels")
	for _, agent := range agents {
		seen := script.Seen(agent)
		script.Compare(seen, all)
		script.Check(lost[agent] == 0, "lost", lost[agent])
		have := only(seen, all)
		for i := 0; i < min(len(have), len(want)); i++ {
			script.Check(have[i] == want[i], "event", agent, i, have[i], want[i])
		}
		script.Check(len(have) == len(want), "number", len(have), len(want))
		named := labeled(seen)
		for _, label := range named {
			script.Check(slices.Contains(labels, label), "label", agent, label, labels)
		}
		script.Check(len(named) == len(labels) || script.Lost(agent) > 0, "labels", agent, len(named), len(labels), script.Lost(agent))
	}
	fmt.Println("ok", len(agents))
}

// labeled returns the starts of workers of the collector.
func labeled(list []script.Event) (labels []string) {
	for _, e := range list {
		if e.Number == startLabel {
			labels = append(labels, fmt.Sprint(e.Time, e.G, e.Text))
		}
	}
	sort.Strings(labels)
	return labels
}

// only returns the events of goroutines, in an order of their own, without states and annotations.
func only(list []script.Event, all map[uint64]*script.Goroutine) (ours []script.Event) {
	for _, e := range list {
		if all[e.G] != nil && e.Number < 45 && e.Number != waiting && e.Number != inSyscall {
			ours = append(ours, e)
		}
	}
	sort.Slice(ours, func(i, j int) bool {
		a, b := ours[i], ours[j]
		return a.Time < b.Time || a.Time == b.Time && (a.G < b.G || a.G == b.G && a.Number < b.Number)
	})
	return ours
}
