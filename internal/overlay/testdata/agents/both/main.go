// Command both compares the events that Go callbacks get with those of native agents, one by one.
package main

import (
	"fmt"
	"runtime/debug"
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
)

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
			r.Args = [2]uint64{}
		}
		got = append(got, script.Event{Number: r.Event, Late: r.Late, Time: r.Time, End: r.End, G: r.Goid, By: r.ByGoid, Args: r.Args})
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
	close(done)
	<-drained
	glti.Enable()
	script.Check(glti.Lost() == 0, "lost", glti.Lost())
	want := only(got, all)
	for _, agent := range agents {
		seen := script.Seen(agent)
		script.Compare(seen, all)
		script.Check(script.Lost(agent) == 0, "lost", script.Lost(agent))
		have := only(seen, all)
		for i := 0; i < min(len(have), len(want)); i++ {
			script.Check(have[i] == want[i], "event", agent, i, have[i], want[i])
		}
		script.Check(len(have) == len(want), "number", len(have), len(want))
	}
	fmt.Println("ok", len(agents))
}

// only returns the events of goroutines, in an order of their own, without annotations.
func only(list []script.Event, all map[uint64]*script.Goroutine) (ours []script.Event) {
	for _, e := range list {
		if all[e.G] != nil && e.Number < 45 {
			ours = append(ours, e)
		}
	}
	sort.Slice(ours, func(i, j int) bool {
		a, b := ours[i], ours[j]
		return a.Time < b.Time || a.Time == b.Time && (a.G < b.G || a.G == b.G && a.Number < b.Number)
	})
	return ours
}
