package event

import "time"

// Scheduler is one reading of the numbers that the scheduler of a Go process keeps by itself.
type Scheduler struct {
	Time       time.Time
	Goroutines int // as runtime.NumGoroutine counts them
	System     int // goroutines of the runtime itself

	// Created is the number of goroutines that were created since the program started, those of the runtime included. It counts the IDs
	// that were given out; it is larger by up to 16 for each P that GOMAXPROCS has taken away.
	Created uint64

	Procs int // GOMAXPROCS

	// TimeToRun is the histogram /sched/latencies:seconds of runtime/metrics: how long goroutines were runnable before they ran. The
	// runtime measures one in eight times. It is nil before Go 1.17.
	TimeToRun []DurationCount

	// GCPauses is the histogram /sched/pauses/total/gc:seconds of runtime/metrics: stop-the-world pauses of the garbage collector. It is nil
	// before Go 1.22.
	GCPauses []DurationCount
}

// Ended returns the number of goroutines that have ended since the program started.
func (s *Scheduler) Ended() uint64 {
	return s.Created - min(s.Created, uint64(max(s.Goroutines+s.System, 0)))
}

// A DurationCount is a bucket of a histogram that is not empty: the number of durations in the range from Low to less than High.
type DurationCount struct {
	Low, High time.Duration
	Count     uint64
}
