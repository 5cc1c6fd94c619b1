// Command threads is a target of the events benchmark. It has many threads and measures how long it is stopped. Some
// threads read the clock continuously. On each of the others, a locked goroutine blocks in read(2) on a pipe to which
// nothing is written.
//
//	threads [-n 100] [-busy 1]
//
// Commands on standard input control the program (see package control). There is one additional command:
//
//	gap  the longest time in nanoseconds between two readings of the clock since the previous gap command
package main

import (
	"flag"
	"log"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/events/control"
)

func main() {
	n := flag.Int("n", 100, "threads")
	busy := flag.Int("busy", 1, "number of these that read the clock")
	flag.Parse()
	gaps := make([]gap, *busy)
	for i := range gaps {
		go gaps[i].watch()
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		log.Fatal(err)
	}
	for missing := *n - threads(); missing > 0; missing = *n - threads() {
		for range missing {
			go wait(pipe[0])
		}
		time.Sleep(100 * time.Millisecond)
	}
	control.Serve("ready", func() int64 { return 0 }, control.Command{Line: "gap", Answer: func() any {
		longest := int64(0)
		for i := range gaps {
			longest = max(longest, gaps[i].longest.Swap(0))
		}
		return longest
	}})
}

// threads returns how many the process has.
func threads() (n int) {
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		log.Fatal(err)
	}
	return len(list)
}

// wait makes of the goroutine a thread that waits forever.
func wait(fd int) {
	runtime.LockOSThread()
	var b [1]byte
	_, err := unix.Read(fd, b[:])
	log.Fatalf("the wait has ended: %v", err)
}

// gap is what a goroutine has found that reads the clock.
type gap struct {
	longest atomic.Int64 // nanoseconds
	_       [56]byte     // a cache line to itself
}

func (g *gap) watch() {
	runtime.LockOSThread()
	for last := time.Now(); ; {
		now := time.Now()
		if d := int64(now.Sub(last)); d > g.longest.Load() {
			g.longest.Store(d)
		}
		last = now
	}
}
