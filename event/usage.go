package event

import "time"

// Usage is the resource usage of a process at one moment, as accounted by the kernel, and the state of its Ps, as
// recorded by the Go runtime.
type Usage struct {
	CPU     time.Duration // user and system time of all threads since the process started
	RSS     int64         // resident memory in bytes
	Threads []ThreadUsage // the live threads, in no particular order

	Procs   int             // GOMAXPROCS; 0 if it could not be read
	Running map[uint64]Proc // the P of each goroutine that has one and is not in a system call, by goroutine ID; nil if it could not be read
	Err     error           // the reason why a part could not be read; nil if all parts were read
}

// ThreadUsage is the kernel's accounting of one thread.
type ThreadUsage struct {
	TID  int32         // thread ID, as in Event
	CPU  time.Duration // time that the thread has run on a processor
	Wait time.Duration // time that the thread was ready to run and waited in the kernel's run queue
}
