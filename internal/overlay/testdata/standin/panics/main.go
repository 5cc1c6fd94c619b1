// Command panics runs itself with an argument, to panic in several ways, and compares what an agent has been told with that.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/loupe-go/loupe/glti"
)

// A way is how to panic, and the value of which an agent is to be told: "" if nothing.
var ways = []struct {
	name, told, printed string
	do                  func()
}{
	{"value", "7", "panic: 7", func() { panic(7) }},
	{"error", "broken", "panic: broken", func() { panic(errors.New("broken")) }},
	{"runtime", "runtime error: index out of range [3] with length 0", "panic: runtime error: index out of range", func() { _ = []int{}[len(os.Args)+1] }},
	{"nil", new(runtime.PanicNilError).Error(), "panic called with nil argument", func() { panic(nil) }},
	{"goroutine", "elsewhere", "panic: elsewhere", func() {
		go func() { panic("elsewhere") }()
		select {}
	}},
	{"again", "second", "panic: first\n\tpanic: second", func() {
		defer func() { panic("second") }()
		panic("first")
	}},
	{"recovered", "", "recovered", func() {
		defer func() { recover(); fmt.Fprintln(os.Stderr, "recovered"); os.Exit(2) }()
		panic("mended")
	}},
	{"goexit", "", "fatal error: no goroutines (main called runtime.Goexit) - deadlock!", runtime.Goexit},
}

func main() {
	if len(os.Args) > 1 {
		for _, w := range ways {
			if w.name == os.Args[1] {
				deferred := false
				glti.Panicked(func(value any) {
					// What ordinary code does.
					c := make(chan string)
					go func() { c <- fmt.Sprint(value) }()
					fmt.Println("told:", <-c, deferred)
				})
				func() {
					defer func() { deferred = true }()
					w.do()
				}()
			}
		}
		return
	}
	failed := false
	for _, w := range ways {
		if race && w.name == "goexit" {
			continue // the runtime does not detect deadlocks: the race detector has a thread of its own
		}
		cmd := exec.Command(os.Args[0], w.name)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		want := ""
		if w.told != "" {
			want = fmt.Sprintf("told: %s %t\n", w.told, w.name != "goroutine")
		}
		if stdout.String() != want || !strings.Contains(stderr.String(), w.printed) || cmd.ProcessState.ExitCode() != 2 {
			fmt.Printf("%s: told %q, expected %q, exit status %d\n%s", w.name, stdout.String(), want, cmd.ProcessState.ExitCode(), stderr.String())
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}
