// Command recorder records an execution trace of itself while it does everything that makes events.
//
//	recorder FILE ROUNDS PAUSE
//
// writes the trace into FILE. It does its work ROUNDS times, and sleeps for PAUSE (such as 1s) in the middle, which is
// what makes a trace of more than one generation. It compiles with Go 1.18 and every later release.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// coroutines makes the events of coroutines, in releases that have them.
var coroutines = func() {}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "recorder:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want FILE ROUNDS PAUSE, got %q", args)
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	pause, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	// With a profile under way a trace gets its samples.
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	if err := trace.Start(file); err != nil {
		return err
	}
	for i := 0; i < rounds; i++ {
		if i == rounds/2 {
			time.Sleep(pause)
		}
		work()
	}
	trace.Stop()
	pprof.StopCPUProfile()
	return file.Close()
}

// work does one round.
func work() {
	annotations()
	channels()
	locks()
	syscalls()
	memory()
	coroutines()
	deep(150)
	burn(30 * time.Millisecond)
}

// texts are what a text form of a trace may stumble over.
var texts = []string{
	"", "plain", `"quoted\"`, "# no comment", "a=b c=d", "\x00\x01\x7f\xff", "line\nline\r\n", "żółć 世界 \u2028 \U0001F600", "`",
	strings.Repeat("long ", 300),
}

// annotations makes tasks, regions and log messages.
func annotations() {
	ctx, task := trace.NewTask(context.Background(), "task")
	defer task.End()
	inner, innerTask := trace.NewTask(ctx, "inner task")
	defer innerTask.End()
	for i, s := range texts {
		trace.Log(inner, "category", s)
		trace.Log(inner, s, "message")
		trace.WithRegion(inner, "region "+strconv.Itoa(i), func() { runtime.Gosched() })
	}
}

// channels makes goroutines that wait for each other.
func channels() {
	var wg sync.WaitGroup
	ping, pong := make(chan int), make(chan int)
	wg.Add(2)
	go func() {
		defer wg.Done()
		for v := range ping {
			select {
			case pong <- v:
			case <-time.After(time.Second):
			}
		}
		close(pong)
	}()
	go func() {
		defer wg.Done()
		for range pong {
		}
	}()
	for i := 0; i < 200; i++ {
		ping <- i
	}
	close(ping)
	wg.Wait()
}

// locks makes goroutines wait for a mutex, a condition and a timer.
func locks() {
	var mu sync.Mutex
	var wg sync.WaitGroup
	cond := sync.NewCond(&mu)
	ready, waiting := false, 0
	for i := 0; i < 20; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			waiting++
			for !ready {
				cond.Wait()
			}
			mu.Unlock()
		}()
	}
	for n := 0; n < 20; {
		time.Sleep(time.Millisecond)
		mu.Lock()
		n = waiting
		mu.Unlock()
	}
	time.Sleep(time.Millisecond)
	mu.Lock()
	ready = true
	cond.Broadcast()
	time.Sleep(time.Millisecond)
	mu.Unlock()
	wg.Wait()
}

// syscalls makes system calls that return at once and some that block.
func syscalls() {
	for i := 0; i < 50; i++ {
		os.Stat("/")
	}
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	go func() {
		time.Sleep(time.Millisecond)
		w.Write([]byte("x"))
		w.Close()
	}()
	r.Read(make([]byte, 1))
	r.Close()
}

var sink [][]byte

// memory allocates until the collector has to run. It is not called for, because runtime.GC fills a trace with its calls
// of Gosched.
func memory() {
	for i := 0; i < 3000; i++ {
		sink = append(sink, make([]byte, 4096))
	}
	sink = nil
}

// deep makes an event with a stack of many frames.
//
//go:noinline
func deep(n int) {
	if n == 0 {
		runtime.Gosched()
		return
	}
	deep(n - 1)
}

var spun int

// burn uses so much processor time in one thread, for the profiler to see. On a busy machine that takes longer.
func burn(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := used() + d; used() < end; {
		for i := 0; i < 100000; i++ {
			spun += i
		}
	}
}

// used returns the processor time that this thread has used.
func used() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
