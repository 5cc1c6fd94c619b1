// Command contention blocks a known number of times while the application, an agent, both or nobody profile that, and compares each
// profile with that number.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// blockedOnce waits for another goroutine on a channel, and returns its own ID.
//
//go:noinline
func blockedOnce() uint64 {
	c := make(chan int)
	go func() {
		for {
			select {
			case c <- 1:
				return
			default: // nobody waits yet
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	<-c
	_, id := glti.Self()
	return id
}

// contendedOnce unlocks a mutex for which another goroutine waits.
//
//go:noinline
func contendedOnce() {
	var mu sync.Mutex
	mu.Lock()
	done := make(chan int)
	go func() { mu.Lock(); mu.Unlock(); close(done) }()
	untilSomebodyWaits()
	mu.Unlock()
	<-done
}

//go:noinline
func untilSomebodyWaits() {
	stacks := make([]byte, 1<<20)
	for !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("[sync.Mutex.Lock")) {
		time.Sleep(100 * time.Microsecond)
	}
}

// application returns the number of events in the application's profile whose stack has the function.
func application(profile func([]runtime.BlockProfileRecord) (int, bool), function string) (count int64) {
	list := make([]runtime.BlockProfileRecord, 10000)
	n, ok := profile(list)
	if !ok {
		panic("too many records")
	}
	for _, r := range list[:n] {
		if has(r.Stack(), function) {
			count += r.Count
		}
	}
	return count
}

// has reports whether a function is the caller of the function of the runtime or of sync that is innermost in a stack. It does not if
// that unlocks a lock of the runtime.
func has(stack []uintptr, function string) bool {
	frames := runtime.CallersFrames(stack)
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasPrefix(f.Function, "runtime.unlock") || strings.Contains(f.Function, "LostContended") {
			return false
		} else if !strings.HasPrefix(f.Function, "runtime.") && !strings.HasPrefix(f.Function, "sync.") &&
			!strings.HasPrefix(f.Function, "internal/sync.") {
			return f.Function == function
		}
	}
	return false
}

// agent returns the number of events of a kind in samples of the agent, and the number of goroutines that they are of.
func agent(list []glti.Contention, kind uint64, function string) (count, goroutines int) {
	ids := map[uint64]bool{}
	for _, s := range list {
		var stack []uintptr
		for _, pc := range s.Stack {
			stack = append(stack, uintptr(pc))
		}
		if s.Kind == kind && has(stack, function) {
			count++
			ids[s.Goid] = true
		}
	}
	return count, len(ids)
}

func main() {
	var blocked, contended int64 // what the application's profiles have had
	for _, phase := range []struct {
		name       string
		app, agent int
	}{{"nobody", 0, 0}, {"application", 1, 0}, {"both", 1, 1}, {"agent", 0, 1}, {"application after the agent", 1, 0}, {"nobody any more", 0, 0}} {
		runtime.SetBlockProfileRate(phase.app)
		glti.BlockRate(phase.agent)
		glti.MutexRate(phase.agent)
		runtime.SetMutexProfileFraction(phase.app)
		check(phase.name, "the application's mutex profile fraction", int64(runtime.SetMutexProfileFraction(-1)), int64(phase.app))
		const times = 50
		var wg sync.WaitGroup
		for i := 0; i < times; i++ {
			wg.Add(1)
			go func() { defer wg.Done(); blockedOnce() }()
			contendedOnce()
		}
		wg.Wait()
		list := glti.ReadContention()
		nowBlocked, nowContended := application(runtime.BlockProfile, "main.blockedOnce"), application(runtime.MutexProfile, "main.contendedOnce")
		agentBlocked, goroutines := agent(list, 1, "main.blockedOnce")
		agentContended, _ := agent(list, 2, "main.contendedOnce")
		check(phase.name, "waits in the application's block profile", nowBlocked-blocked, times*int64(phase.app))
		check(phase.name, "waits in the agent's block profile", int64(agentBlocked), times*int64(phase.agent))
		check(phase.name, "goroutines in the agent's block profile", int64(goroutines), times*int64(phase.agent))
		check(phase.name, "waits in the application's mutex profile", nowContended-contended, times*int64(phase.app))
		check(phase.name, "waits in the agent's mutex profile", int64(agentContended), times*int64(phase.agent))
		blocked, contended = nowBlocked, nowContended
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}

var failed bool

func check(phase, what string, got, want int64) {
	if got != want {
		fmt.Printf("%s: %s: %d, expected %d\n", phase, what, got, want)
		failed = true
	}
}
