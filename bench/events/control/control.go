// Package control lets the benchmark control its target programs with commands on their standard input. Each command is a
// line, and so is each answer:
//
//	ops        number of operations, nanoseconds on the monotonic clock, and nanoseconds of processor time
//	trace on   starts the runtime's execution tracer, which writes to /dev/null
//	trace off  stops the tracer
//
// A target exits at the end of its standard input.
package control

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime/trace"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Command is a line that only one of the programs knows.
type Command struct {
	Line   string
	Answer func() any // what is printed
}

// Serve prints ready and answers lines until there are no more, then ends the process. ops returns how many operations
// were done.
func Serve(ready string, ops func() int64, more ...Command) {
	start := time.Now()
	fmt.Println(ready)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch line := lines.Text(); line {
		case "ops":
			var use unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
				log.Fatal(err)
			}
			fmt.Println(ops(), time.Since(start).Nanoseconds(), use.Utime.Nano()+use.Stime.Nano())
		case "trace on":
			if err := startTrace(); err != nil {
				log.Fatal(err)
			}
			fmt.Println("on")
		case "trace off":
			trace.Stop()
			fmt.Println("off")
		default:
			i := slices.IndexFunc(more, func(c Command) bool { return c.Line == line })
			if i < 0 {
				log.Fatalf("unknown line %q", line)
			}
			fmt.Println(more[i].Answer())
		}
	}
	os.Exit(0)
}

func startTrace() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return trace.Start(null)
}
