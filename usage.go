package loupe

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// Usage is what the kernel accounts of a process at one moment, and what the Go runtime says of its Ps.
type Usage struct {
	CPU     time.Duration // processor time of all threads since the process began: utime + stime
	RSS     int64         // resident memory in bytes
	Threads []ThreadUsage // those that live, in no order

	Procs   int                   // GOMAXPROCS; 0 if it could not be read
	Running map[uint64]event.Proc // the goroutines that have a P and are not in a system call; nil if that could not be read
	Err     error                 // why a part could not be read
}

// ThreadUsage is what the kernel accounts of a thread.
type ThreadUsage struct {
	TID  int32         // as in event.Event
	CPU  time.Duration // it ran on a processor
	Wait time.Duration // it could run, and waited for a processor in the kernel's run queue
}
