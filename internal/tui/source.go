package tui

import (
	"math"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// Source is what pictures are taken of. A *sched.Machine is one, a Feed another.
type Source interface {
	// Advance brings the source up to date: it is that time now, in nanoseconds since the Unix epoch.
	Advance(now int64)

	// Account takes what the kernel accounts of the process, of now.
	Account(b event.Usage)

	Totals() sched.Totals
	Runtime() sched.Runtime
	Latency() sched.Latency
	Sites() []sched.Site
	Waits() []sched.Wait
	Contention(limit int) []sched.Place
	Goroutine(id uint64) (sched.Goroutine, bool)
	Goroutines(f sched.Filter, by sched.Order, limit int) (list []sched.Goroutine, matched int)
	History(g uint64, limit int) []event.Event
	Creator(id uint64) (parent uint64, origin *event.Origin, ok bool)
	HistorySize() (holds int, all uint64)
}

// Target is the process that is looked at, as far as it is known.
type Target struct {
	Name      string // of its executable
	PID       int
	GoVersion string
	Module    string // path of its main module, which tells its own functions from others

	System   bool // the runtime's own goroutines are observed
	Syscalls bool // system calls are observed
}

// Health is what the user should know about the observation itself.
type Health struct {
	Lost uint64 // events that happened and were not delivered
	// Unreadable is the part of Lost that is due to failed reads of the target's memory.
	Unreadable uint64
	Warnings   []string
}

// feedBatch is how many events a Feed gives to its machine at once.
const feedBatch = 512

// Feed passes events on to a machine, many at once. One goroutine adds; others may take pictures meanwhile.
type Feed struct {
	*sched.Machine

	mu      sync.Mutex // guards pending
	pending []event.Event
	clock   func() int64
	over    bool // no event comes any more: time stands still
	added   uint64
	latest  int64 // the time of the event that was added last
}

// NewFeed returns a feed of a machine. The time of the events goes on from now on as the monotonic clock does, whatever
// becomes of the wall clock.
func NewFeed(m *sched.Machine) *Feed {
	began := time.Now()
	wall := began.UnixNano()
	return &Feed{Machine: m, pending: make([]event.Event, 0, feedBatch), clock: func() int64 { return wall + int64(time.Since(began)) }}
}

// Add takes the next event. It does not keep e, but what e points to.
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

// flush gives the machine what it has not got yet. The caller holds the lock.
func (f *Feed) flush() {
	f.ApplyBatch(f.pending)
	clear(f.pending) // for the collector
	f.pending = f.pending[:0]
}

// How CatchUp waits for events.
const (
	catchUpPause = 2 * time.Millisecond
	catchUpQuiet = 25 // pauses without an event, after which there are none to wait for
)

// CatchUp waits until the events of the time before the call were added, at most for a limit. They wait in the buffer when
// this process was stopped, or when the machine is so busy that the reader does not get a processor in time.
func (f *Feed) CatchUp(limit time.Duration) {
	now := f.clock()
	seen, latest := f.progress()
	for quiet, deadline := 0, time.Now().Add(limit); latest < now && quiet < catchUpQuiet && time.Now().Before(deadline); quiet++ {
		time.Sleep(catchUpPause)
		added := seen
		if added, latest = f.progress(); added > seen {
			seen, quiet = added, 0
		}
	}
}

// progress returns how many events were added, and the time of the last one.
func (f *Feed) progress() (added uint64, latest int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return f.added, math.MaxInt64
	}
	return f.added, f.latest
}

// End says that no event comes any more: times in states stay as they are.
func (f *Feed) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	if !f.over {
		f.Machine.Advance(f.clock())
		f.over = true
	}
}

// Now returns the time of the events, in nanoseconds since the Unix epoch.
func (f *Feed) Now() int64 { return f.clock() }

// Advance gives the machine the events that have come until now, and the time.
func (f *Feed) Advance(now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	if !f.over {
		f.Machine.Advance(now)
	}
}
