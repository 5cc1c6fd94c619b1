// Package nap suspends a reader of records for a moment, at a cost to this process and to the target that does not exceed that of
// the records. It also says how long the moment is to be: it depends on how fast records come, and on how many readers there are.
package nap

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Napper makes a reader sleep. It is used by one goroutine at a time.
type Napper struct {
	thread int // the thread that slept last
	soon   bool
	open   bool
}

// readers is the number of readers in this process.
var readers atomic.Int32

// Open counts a reader.
func (n *Napper) Open() {
	n.open = true
	readers.Add(1)
}

// Close counts the reader no longer. It may be called more than once, and must not be called while another goroutine calls Open.
func (n *Napper) Close() {
	if n.open {
		n.open = false
		readers.Add(-1)
	}
}

// hurry is the longest sleep after which the thread is to run soon. One that sleeps longer has a buffer with much room. It waits for its
// turn: to preempt a program at each wake-up slows it down more than the work of the reader does.
const hurry = 2 * time.Millisecond

// napping is the number of threads that sleep without the runtime's knowledge.
var napping atomic.Int32

// Sleep sleeps. fast reports that records come fast.
//
// It sleeps without the runtime's knowledge if the sleep is short: the runtime's timers are no finer than a millisecond when nothing else
// happens, and a system call that it knows of makes it hand the P to another thread and back, which costs more than the records of a
// millisecond. The P is held meanwhile, so a garbage collection in this process may have to wait for the end of the sleep. One P is left to
// others if there are several: a process that observes many programs has more readers than Ps.
//
// A longer sleep is one of the runtime while few records come: a system call of ten milliseconds keeps its monitor awake. It is not while
// records come fast: when the reader sleeps and no P is in use, the monitor sleeps, too, and after that it looks every 20 µs, for as long as
// the reader needs for the records of ten milliseconds.
func (n *Napper) Sleep(d time.Duration, fast bool) {
	if d > hurry && !fast {
		n.setSoon(unix.Gettid(), false)
		time.Sleep(d)
		return
	}
	n.setSoon(unix.Gettid(), d <= hurry)
	ts := unix.NsecToTimespec(d.Nanoseconds()) // an early return does no harm
	defer napping.Add(-1)
	if int(napping.Add(1)) > max(runtime.GOMAXPROCS(0)-1, 1) {
		unix.Nanosleep(&ts, nil)
		return
	}
	unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// setSoon sets whether the thread is to run soon after it has slept.
func (n *Napper) setSoon(tid int, soon bool) {
	if soon == (n.soon && tid == n.thread) {
		return
	}
	setSlice(tid, soon)
	if n.thread, n.soon = tid, soon; soon {
		unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0)
	}
}

// A Rate tells how fast records come. It is used by one goroutine at a time.
type Rate struct{ asked time.Time }

// A Speed is how fast records come.
type Speed int

// The speeds.
const (
	Few  Speed = iota // fewer than some 4,000 records a second: a reader may look at each soon
	Some              // more
	Fast              // more than some 8,000 a second: a reader looks at many at once
)

// fewBytes and fastBytes are how much comes in a second, at most or at least, at these speeds.
const (
	fewBytes  = 256 << 10
	fastBytes = 512 << 10
)

// Next returns the speed, given how many bytes have come since its last call. It divides them by the time since then, so that a reader that
// looks often, and finds little each time, also learns that records come fast.
func (r *Rate) Next(bytes uint64) Speed {
	now := time.Now()
	since := now.Sub(r.asked).Seconds()
	r.asked = now
	switch {
	case float64(bytes) >= fastBytes*since:
		return Fast
	case float64(bytes) > fewBytes*since:
		return Some
	}
	return Few
}

// longest is the longest pause of a reader to which few records come.
const longest = 10 * time.Millisecond

// Share returns how long a reader to which few records come is to pause, if one alone would pause for d. The more readers there are, the longer
// each does: n of them wake up less often in all than one.
func Share(d time.Duration) time.Duration {
	n := time.Duration(max(readers.Load(), 1))
	return max(d, min(d*n*n, longest))
}

// Pauses are the shortest and the longest pause of a reader between two looks at its buffer while records come fast.
type Pauses struct{ Least, Most time.Duration }

// Next returns the next pause, given the last one and how many bytes came during it of those that the buffer has room for. A longer pause
// costs the program less, but leaves less room for a burst.
func (p Pauses) Next(last time.Duration, bytes, room uint64) time.Duration {
	switch {
	case bytes < room/8:
		last *= 2
	case bytes > room/4:
		last /= 2
	}
	return min(max(last, p.Least), p.Most)
}

// shortSlice is the time slice of the reader's thread on a busy processor, the shortest that Linux accepts.
const shortSlice = 100 * time.Microsecond

// timerSlack is how much longer than asked for the thread may sleep, in nanoseconds. The usual 50 µs are as long as the shortest sleep.
const timerSlack = 5000

// setSlice sets a short time slice for a thread, or the usual one. With a short one it runs soon after a wake-up, before others have
// used up their slices. It does not get more time in total. Kernels before Linux 6.12 ignore the setting, which affects only latency.
func setSlice(tid int, short bool) {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return
	}
	attr.Runtime = 0
	if short {
		attr.Runtime = uint64(shortSlice)
	}
	unix.SchedSetAttr(tid, attr, 0)
}
