package main

import (
	"bytes"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/glti"
)

const (
	waiting   = 31
	inSyscall = 32
)

func in(list []glti.ID, id uint64) bool {
	for _, g := range list {
		if g.Goid == id {
			return true
		}
	}
	return false
}

// listed returns the states of goroutines as tracebacks spell them.
func listed() map[uint64]string {
	states, buf := map[uint64]string{}, make([]byte, 1<<20)
	for _, line := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n")) {
		rest, ok := strings.CutPrefix(string(line), "goroutine ")
		number, state, found := strings.Cut(rest, " [")
		if id, err := strconv.ParseUint(number, 10, 64); ok && found && err == nil {
			state, _, _ = strings.Cut(state, "]")
			state, _, _ = strings.Cut(state, ",")
			states[id] = state
		}
	}
	return states
}

// states compares the goroutines that wait, and those in system calls, with tracebacks before and after. Those of the runtime have none.
func states() {
	var end atomic.Bool
	scenes(&end)
	defer end.Store(true)
	for i := 0; i < 20; i++ {
		before := listed()
		waits, calls := glti.InState(waiting), glti.InState(inSyscall)
		after := listed()
		count := map[string]int{}
		for id, state := range before {
			if after[id] != state {
				continue
			}
			count[state]++
			isWaiting := state != "running" && state != "runnable" && state != "syscall"
			check(in(waits, id) == isWaiting, "waiting "+state, id)
			check(in(calls, id) == (state == "syscall"), "in a system call "+state, id)
		}
		system := 0
		for _, g := range append(waits, calls...) {
			check(g.G != 0 && g.Goid != 0, "no goroutine", g)
			if before[g.Goid] == "" && after[g.Goid] == "" {
				system++
			}
		}
		check(system > 0 && system < 10+3*runtime.NumCPU(), "goroutines without a traceback", system)
		for _, state := range []string{"chan receive", "chan send", "select", "sleep", "IO wait", "select (no cases)", "sync.Cond.Wait", "syscall"} {
			check(count[state] > 0, "no goroutine is in state "+state, count)
		}
		if i%5 == 0 {
			runtime.GC()
		}
	}
	quiet, done := make(chan uint64), make(chan bool)
	go func() {
		glti.Quiet()
		_, id := glti.Self()
		quiet <- id
		<-done
	}()
	id := <-quiet
	for listed()[id] != "chan receive" {
		runtime.Gosched()
	}
	check(!in(glti.InState(waiting), id), "a quiet goroutine waits", id)
	close(done)
}

// scenes starts goroutines that wait in various ways, and returns when they do.
func scenes(end *atomic.Bool) {
	never := make(chan int)
	var mu sync.Mutex
	cond := sync.NewCond(&mu)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, "listen", err)
	var fds [2]int
	check(syscall.Pipe(fds[:]) == nil, "pipe", fds)
	for state, f := range map[string]func(){
		"chan receive": func() { <-never },
		"chan send":    func() { make(chan int) <- 1 },
		"select": func() {
			select {
			case <-never:
			case <-make(chan int):
			}
		},
		"select (no cases)": func() { select {} },
		"sleep":             func() { time.Sleep(time.Hour) },
		"IO wait":           func() { l.Accept() },
		"sync.Cond.Wait":    func() { mu.Lock(); cond.Wait() },
		"syscall":           func() { syscall.Read(fds[0], make([]byte, 1)) },
	} {
		ids := make(chan uint64)
		go func(f func()) {
			_, id := glti.Self()
			ids <- id
			f()
		}(f)
		for id := <-ids; listed()[id] != state; {
			time.Sleep(time.Millisecond)
		}
	}
	go func() { // runs, or is runnable
		for !end.Load() {
		}
	}()
}
