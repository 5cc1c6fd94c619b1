package spans

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// A Class is what a goroutine does, as far as it concerns a request.
type Class uint8

// The classes.
const (
	Running  Class = iota // on a processor, or about to continue on its thread; also in a system call if these are not observed
	Runnable              // waits for a P
	Chan                  // waits to send to or receive from a channel
	Select                // waits in a select statement
	Mutex                 // waits for a lock
	Network               // waits for the network or another file that the poller watches
	Syscall               // in a system call
	Assist                // waits for the garbage collector: to assist it, or to begin a collection
	Sleep                 // in time.Sleep
	Sync                  // waits for a sync.WaitGroup or a sync.Cond
	Other                 // waits for something else

	NumClasses = iota
)

var classNames = [NumClasses]string{"running", "runnable", "chan", "select", "mutex", "network", "syscall", "gc_assist", "sleep", "sync", "other"}

// String returns the name of a class, such as "chan".
func (c Class) String() string { return classNames[c] }

// Times are durations by class.
type Times [NumClasses]time.Duration

// Total returns their sum.
func (t *Times) Total() time.Duration {
	var sum time.Duration
	for _, d := range t {
		sum += d
	}
	return sum
}

// Work is what goroutines did for a request: its own goroutine from the begin of the span to its end, and those that were
// created while it was served. If waits are not observed, it has no times, and no goroutines were counted.
type Work struct {
	Own     Times // their sum is the duration of the span
	Started Times // sum of all goroutines that were started for the request, until the span ended
	Created int   // number of these
	Holder  Holder

	// Allocated is what the goroutine of the request has allocated until the span ended, and those that were started for it. Of one that
	// was running when the span ended, it may lack what that had allocated since it had last waited, or had woken another one. Allocated
	// is nil if allocations are not counted.
	Allocated *Allocations

	// Uncertain reports that events may have been lost while the request was served. The times up to the next event of a
	// goroutine may then belong to other classes. Their sum is exact if the end of the span was observed.
	Uncertain bool
}

// Allocations are objects on the heap.
type Allocations struct {
	Bytes   uint64 // with what the runtime rounds sizes up to, as in runtime.MemStats.TotalAlloc
	Objects uint64 // as in runtime.MemStats.Mallocs
}

// Holder is who held the lock for which a request waited longest.
type Holder struct {
	Wait time.Duration // how long; 0: the request did not wait for a lock
	G    uint64        // the goroutine that released it; 0: unknown
	Func string        // the function in which it released it; empty: unknown
}

// Attributes returns the work as attributes of a span. Times are in seconds, allocations in bytes and objects. Classes without time are
// omitted, except running. If there are no times at all, that is omitted, too.
func (w *Work) Attributes() []attribute.KeyValue {
	var list []attribute.KeyValue
	add := func(prefix string, t *Times) {
		for c, d := range t {
			if d > 0 || Class(c) == Running {
				list = append(list, attribute.Float64(prefix+Class(c).attribute(), d.Seconds()))
			}
		}
	}
	if w.Own.Total() > 0 {
		add("loupe.go.", &w.Own)
	}
	if w.Created > 0 {
		list = append(list, attribute.Int("loupe.go.goroutines.started", w.Created))
		add("loupe.go.goroutines.", &w.Started)
	}
	if a := w.Allocated; a != nil {
		list = append(list, attribute.Int64("loupe.go.allocated", int64(a.Bytes)), attribute.Int64("loupe.go.allocations", int64(a.Objects)))
	}
	if w.Uncertain {
		list = append(list, attribute.Bool("loupe.go.uncertain", true))
	}
	if h := w.Holder; h.Wait > 0 {
		list = append(list, attribute.Float64("loupe.go.lock.longest_wait", h.Wait.Seconds()))
		if h.G != 0 {
			list = append(list, attribute.Int64("loupe.go.lock.released_by.goroutine", int64(h.G)))
		}
		if h.Func != "" {
			list = append(list, attribute.String("loupe.go.lock.released_by.function", h.Func))
		}
	}
	return list
}

// attribute returns the name of a class in an attribute: waits are below "blocked".
func (c Class) attribute() string {
	if c == Running || c == Runnable {
		return c.String()
	}
	return "blocked." + c.String()
}
