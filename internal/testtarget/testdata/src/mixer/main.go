// Command mixer does many kinds of work at the same time, each with a known result, so that harm done to any thread shows.
//
//	mixer WORKERS
//
// It runs that many workers of each kind: sums over channels, under mutexes, of floating-point numbers, of copied memory;
// stacks that grow and shrink; system calls that wait for time, data or signals; threads that come and go; child processes;
// loops that only a signal interrupts; with cgo, calls of C and from C, and forks. The collector runs all the time, the
// number of Ps changes, and SIGPROF comes 1000 times a second. It adds the commands
//
//	sum      `sum ok <kind>=<pieces of work>...`, or `sum bad <wrong results> <the first one>`
//	rest     `rests` when all work under way is done and no more is begun
//	work     `works`: it goes on
//	load     only with the build tag mixerplugin: loads the plugin plugged.so, which is beside the program, and
//	         has it work too; `loaded`, and `unloadable <reason>` when that fails
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// A kind is one kind of work.
type kind struct {
	name string
	work func() // does one piece
	lone bool   // there is one worker, however many are wanted
	free bool   // it goes on while the others rest, which may wait for it
	done int64  // pieces
}

var (
	workers  = 2
	kinds    []*kind // files with a build tag add theirs in init
	commands = map[string]command{"sum": sum, "rest": rest, "work": goOn}
	resting  sync.RWMutex // held for reading by every piece of work

	collector = &kind{name: "collections", work: collect, lone: true, free: true}

	wrong int64
	mu    sync.Mutex
	first string // the first wrong result
)

func main() {
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "mixer: %q is not a count of workers\n", os.Args[1])
			os.Exit(2)
		}
		workers = n
	}
	// The setting alone starts the timer; nobody reads the profile.
	runtime.SetCPUProfileRate(1000)
	kinds = append(kinds,
		&kind{name: "channels", work: channels}, &kind{name: "mutexes", work: mutexes}, &kind{name: "floats", work: floats},
		&kind{name: "copies", work: copies}, &kind{name: "stacks", work: stacks},
		&kind{name: "sleeps", work: sleeps}, &kind{name: "futexes", work: futexes}, &kind{name: "reads", work: reads},
		&kind{name: "deadlines", work: deadlines}, &kind{name: "signals", work: newSignals(), lone: true},
		&kind{name: "children", work: children, lone: true},
		&kind{name: "procs", work: newProcs(), lone: true}, collector,
	)
	for _, k := range kinds {
		k.start()
	}
	serve(false, commands)
}

func (k *kind) start() {
	n := workers
	if k.lone {
		n = 1
	}
	for ; n > 0; n-- {
		go k.forever()
	}
}

func (k *kind) forever() {
	for {
		if k.free {
			k.work()
			atomic.AddInt64(&k.done, 1)
		} else {
			resting.RLock()
			k.work()
			atomic.AddInt64(&k.done, 1) // within the lock: nothing is counted at rest
			resting.RUnlock()
		}
		// Before Go 1.13 nothing preempts a goroutine that is in a system call whenever the scheduler looks, as
		// those are that wait there: a few of them would keep all Ps to themselves.
		runtime.Gosched()
	}
}

func sum([]string) string {
	if n := atomic.LoadInt64(&wrong); n > 0 {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("sum bad %d %s", n, first)
	}
	answer := "sum ok"
	for _, k := range kinds {
		answer += fmt.Sprintf(" %s=%d", k.name, atomic.LoadInt64(&k.done))
	}
	return answer
}

func rest([]string) string {
	resting.Lock()
	return "rests"
}

func goOn([]string) string {
	resting.Unlock()
	return "works"
}

func fail(format string, args ...interface{}) {
	atomic.AddInt64(&wrong, 1)
	mu.Lock()
	defer mu.Unlock()
	if first == "" {
		first = fmt.Sprintf(format, args...)
	}
}
