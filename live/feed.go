package live

import (
	"math"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// feedBatch is the number of events that a Feed passes to its machine together.
const feedBatch = 512

// A Feed passes events to a [sched.Machine] in batches. It implements [State]. Its methods may be called concurrently, but only
// one goroutine may call [Feed.Add]. Events must be added with Add only, not with the Apply methods of the Machine.
type Feed struct {
	*sched.Machine

	mu      sync.Mutex    // guards the fields below, except clock
	pending []event.Event // events that the machine does not have yet
	clock   func() int64
	ended   bool   // End was called: the time no longer advances
	added   uint64 // number of events
	latest  int64  // time of the event that was added last
}

// NewFeed returns a Feed for m. The clock of the Feed starts at the current wall-clock time and advances with the monotonic
// clock, so changes of the wall clock do not affect it.
func NewFeed(m *sched.Machine) *Feed {
	began := time.Now()
	wall := began.UnixNano()
	return &Feed{Machine: m, pending: make([]event.Event, 0, feedBatch), clock: func() int64 { return wall + int64(time.Since(began)) }}
}

// Add adds the next event. It does not retain e, but it retains e.Stack and e.Origin, which must not be modified afterwards.
func (f *Feed) Add(e *event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, *e)
	f.added++
	f.latest = e.Time
	if len(f.pending) == feedBatch {
		f.flush()
	}
}

// flush passes the pending events to the machine. The caller must hold f.mu.
func (f *Feed) flush() {
	f.ApplyBatch(f.pending)
	clear(f.pending) // release the stacks and origins
	f.pending = f.pending[:0]
}

// CatchUp checks for new events every catchUpPause. It returns after catchUpQuiet checks without a new event. If a pause takes
// longer than catchUpStopped, this process did not run.
const (
	catchUpPause   = 2 * time.Millisecond
	catchUpQuiet   = 25
	catchUpStopped = 20 * time.Millisecond
)

// CatchUp waits until the events from before the call have been added. It returns when an event is added that is later than the
// call, when no event is added for 50 ms, after the given limit, or if [Feed.End] has been called.
//
// Events can be late if this process was stopped, or if its threads wait for a processor. Such times during the call do not count.
func (f *Feed) CatchUp(limit time.Duration) {
	now := f.clock()
	seen, latest := f.progress()
	for quiet, deadline := 0, time.Now().Add(limit); latest < now && quiet < catchUpQuiet && time.Now().Before(deadline); quiet++ {
		began := time.Now()
		time.Sleep(catchUpPause)
		if took := time.Since(began); took > catchUpStopped {
			now, quiet, deadline = f.clock(), 0, deadline.Add(took-catchUpStopped)
		}
		added := seen
		if added, latest = f.progress(); added > seen {
			seen, quiet = added, 0
		}
	}
}

// progress returns the number of added events, and the time of the last one. After End, the time is math.MaxInt64.
func (f *Feed) progress() (added uint64, latest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return f.added, math.MaxInt64
	}
	return f.added, f.latest
}

// End records that there are no further events. It passes all pending events to the machine and advances its time to the
// current time. After that, the time of the machine does not advance.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	if !f.ended {
		f.Machine.Advance(f.clock())
		f.ended = true
	}
}

// Now returns the current time of the clock of the Feed, in nanoseconds since the Unix epoch.
func (f *Feed) Now() int64 { return f.clock() }

// Advance passes all added events to the machine, and then sets its time to now, in nanoseconds since the Unix epoch. After
// [Feed.End], it does not change the time.
func (f *Feed) Advance(now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	if !f.ended {
		f.Machine.Advance(now)
	}
}
