package tracetruth

import (
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// A Request is a region of the trace in which a goroutine of the program served a request, and how the time was spent.
type Request struct {
	Name       string // of the region
	G          uint64
	Begin, End int64       // nanoseconds of CLOCK_MONOTONIC
	Own        spans.Times // of G
	Started    spans.Times // of the goroutines that were started for the request, until End
	Created    int         // number of these
	Alive      int         // of these, alive at End
	Steps      int         // changes of the states in Own
	Others     int         // and of those in Started
	Moved      bool        // the trace reader changed a time
}

// A region is the begin or the end of a region of the program, in the order of the records.
type region struct {
	name  string
	g     uint64
	at    int64
	begin bool
	index int // of the next record
	moved bool
}

// A busy is a goroutine during a request.
type busy struct {
	request *Request
	own     bool
	class   spans.Class
	since   int64
}

// Requests returns the regions that have ended. The name of each region is unique. If system calls are not observed, waits for a P
// after them have the class spans.Syscall: they are not observed either.
func (t *Trace) Requests(syscalls bool) []*Request {
	var list []*Request
	live := map[uint64]*busy{}
	next := 0
	for i := range t.regions {
		r := &t.regions[i]
		for ; next < r.index; next++ {
			t.step(live, &t.Records[next], syscalls)
		}
		if r.begin {
			live[r.g] = &busy{request: &Request{Name: r.name, G: r.g, Begin: r.at, Moved: r.moved}, own: true, since: r.at}
			continue
		}
		b := live[r.g]
		if b == nil || !b.own || b.request.Name != r.name {
			continue
		}
		b.request.End = r.at
		b.request.Moved = b.request.Moved || r.moved
		list = append(list, b.request)
		for id, other := range live {
			if other.request == b.request {
				other.spend(r.at)
				if !other.own {
					other.request.Alive++
				}
				delete(live, id)
			}
		}
	}
	return list
}

// step takes a record of a goroutine.
func (t *Trace) step(live map[uint64]*busy, r *Record, syscalls bool) {
	if creator := live[r.By]; r.Kind == event.GoCreate && creator != nil && !isRuntime(r.Start) {
		creator.request.Created++
		live[r.G] = &busy{request: creator.request, class: spans.Runnable, since: r.Time}
		creator.request.Others++
		return
	}
	b := live[r.G]
	if b == nil {
		return
	}
	b.request.Moved = b.request.Moved || r.Moved
	if b.own {
		b.request.Steps++
	} else {
		b.request.Others++
	}
	b.spend(r.Time)
	switch r.Kind {
	case event.GoStart:
		b.class = spans.Running
	case event.GoStop:
		b.class = spans.Runnable
	case event.GoUnblock:
		b.class = spans.Runnable
	case event.GoSyscallBegin:
		b.class = spans.Syscall
	case event.GoSyscallEnd:
		switch {
		case !r.lostP:
			b.class = spans.Running
		case syscalls:
			b.class = spans.Runnable
		}
	case event.GoBlock:
		b.class = t.waitOf(r)
	case event.GoDestroy:
		delete(live, r.G)
	}
}

func (b *busy) spend(until int64) {
	times := &b.request.Started
	if b.own {
		times = &b.request.Own
	}
	times[b.class] += time.Duration(until - b.since)
	b.since = until
}

// waitOf returns the class of a wait, by the tracer's reason and the functions that wait.
func (t *Trace) waitOf(r *Record) spans.Class {
	switch reason := r.TraceReason; {
	case strings.HasPrefix(reason, "chan "):
		return spans.Chan
	case reason == "select":
		return spans.Select
	case reason == "network":
		return spans.Network
	case reason == "sleep":
		return spans.Sleep
	case reason == "sync.(*Cond).Wait":
		return spans.Sync
	case strings.HasPrefix(reason, "GC mark assist"):
		return spans.Assist
	case reason == "sync" && r.within("sync.(*WaitGroup)"):
		return spans.Sync
	case reason == "sync" && (r.within("sync.(*Mutex)") || r.within("sync.(*RWMutex)")):
		return spans.Mutex
	case reason == "sync" && !r.callsSemaphore(): // a collection begins
		return spans.Assist
	case reason == "sync":
		return spans.Sync
	}
	return spans.Other
}

// callsSemaphore reports whether the innermost function that does not belong to the runtime is one with which a package calls its
// semaphores, such as sync.runtime_Semacquire.
func (r *Record) callsSemaphore() bool {
	i := slices.IndexFunc(r.Stack, func(f Frame) bool { return !isRuntime(f.Func) })
	return i >= 0 && strings.Contains(r.Stack[i].Func, ".runtime_")
}
