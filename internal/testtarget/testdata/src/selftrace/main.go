// Command selftrace does everything that makes goroutine events, in known
// amounts, while it records an execution trace of itself.
//
// It adds the commands
//
//	trace FILE ROUNDS  records a trace into FILE during so many rounds of all
//	                   phases, then
//	                   `traced <begin> <end> <what happened, as JSON>`, the
//	                   times in nanoseconds of CLOCK_MONOTONIC
//	idle FILE          records a trace in which the program does nothing, with
//	                   the same answer
//	heap FILE MS       allocates for MS milliseconds while it records a trace,
//	                   then `heaped`; see heap.go
//	script WORKERS ROUNDS
//	                   runs phases in which workers do one thing, each in so many
//	                   rounds, and are released only when all of them are seen
//	                   to wait: `scripted <what each of them did, as JSON>`
//	scripttrace FILE WORKERS ROUNDS
//	                   the same while it records a trace
//
// Into a trace go log messages: in the category loupe.begin and loupe.end the
// monotonic time right before the message was written, several in a row, as the
// first and the last of what counts; in the category loupe.clock the same once
// for each phase; in the category loupe.phase the name of the phase that begins.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/trace"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// A phase makes events of one sort. It returns when all its goroutines are done
// or rest for ever.
type phase struct {
	name string
	// creates is how many goroutines with a function of this program one run
	// makes.
	creates int
	run     func()
}

// phases is what the files of this program add in their init functions.
var phases []phase

// recorded tells what happened during a trace.
type recorded struct {
	Rounds int           `json:"rounds"`
	Phases []phaseCounts `json:"phases"`
}

// phaseCounts is what one run of a phase does.
type phaseCounts struct {
	Name    string `json:"name"`
	Creates int    `json:"creates"`
}

func main() {
	serve(false, map[string]command{
		"trace": func(args []string) string {
			n, bad := numbers(args, 1, 1)
			if bad != "" {
				return bad
			}
			return record(args[0], n[0], phases)
		},
		"idle": func(args []string) string {
			if _, bad := numbers(args, 1, 0); bad != "" {
				return bad
			}
			return record(args[0], 1, nil)
		},
		"heap": func(args []string) string { return heap(args[0], args[1]) },
		"script": func(args []string) string {
			n, bad := numbers(args, 0, 2)
			if bad != "" {
				return bad
			}
			return script(n[0], n[1])
		},
		"scripttrace": func(args []string) string {
			n, bad := numbers(args, 1, 2)
			if bad != "" {
				return bad
			}
			file, err := os.Create(args[0])
			if err == nil {
				err = trace.Start(file)
			}
			if err != nil {
				return "error " + err.Error()
			}
			defer file.Close()
			mark("loupe.begin")
			answer := script(n[0], n[1])
			mark("loupe.end")
			trace.Stop()
			return answer
		},
	})
}

// numbers returns the numbers among the arguments of a command: some words, then
// count numbers greater than 0. bad is the answer when they are something else.
func numbers(args []string, words, count int) (n []int, bad string) {
	if len(args) != words+count {
		return nil, fmt.Sprintf("error %d arguments, not %d", len(args), words+count)
	}
	for _, arg := range args[words:] {
		i, err := strconv.Atoi(arg)
		if err != nil || i < 1 {
			return nil, "error not a count: " + arg
		}
		n = append(n, i)
	}
	return n, ""
}

// record runs phases while a trace is written.
func record(path string, rounds int, list []phase) string {
	file, err := os.Create(path)
	if err != nil {
		return "error " + err.Error()
	}
	defer file.Close()
	if err := trace.Start(file); err != nil {
		return "error " + err.Error()
	}
	// Nothing moves near the first and the last mark, so that both observers
	// agree on what is between them.
	time.Sleep(rest)
	begin := mark("loupe.begin")
	time.Sleep(rest)
	did := recorded{Rounds: rounds, Phases: []phaseCounts{}}
	for _, p := range list {
		did.Phases = append(did.Phases, phaseCounts{p.name, p.creates})
	}
	for i := 0; i < rounds; i++ {
		for _, p := range list {
			trace.Log(context.Background(), "loupe.phase", p.name)
			stamp("loupe.clock")
			p.run()
		}
	}
	trace.Log(context.Background(), "loupe.phase", "rest")
	time.Sleep(rest)
	end := mark("loupe.end")
	time.Sleep(rest)
	trace.Stop()
	text, err := json.Marshal(did)
	if err != nil {
		return "error " + err.Error()
	}
	return fmt.Sprintf("traced %d %d %s", begin, end, text)
}

// rest is how long all goroutines rest before and after each mark.
const rest = 30 * time.Millisecond

// mark writes the monotonic time into the trace, several times because any of
// them may be late when the machine does something else in between. It returns
// the time of the first.
func mark(category string) int64 {
	var first int64
	for i := 0; i < 16; i++ {
		now := stamp(category)
		if i == 0 {
			first = now
		}
	}
	return first
}

// stamp writes the monotonic time into the trace and returns it.
func stamp(category string) int64 {
	now := clockMonotonic()
	trace.Log(context.Background(), category, strconv.FormatInt(now, 10))
	return now
}

// clockMonotonic reads CLOCK_MONOTONIC. A raw system call is no event.
func clockMonotonic() int64 {
	const clock = 1 // CLOCK_MONOTONIC
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		check(errno)
	}
	return ts.Nano()
}

// check ends the program when something fails that cannot fail.
func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "selftrace: %v\n", err)
		os.Exit(1)
	}
}
