// Tiny records a small execution trace of itself, in which there is something of everything.
//
//	tiny FILE
//
// It compiles with Go 1.18 and every later release. The traces beside it were made by it: TestTiny makes them again when
// it is called with -update.
package main

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"runtime/trace"
	"sync"
	"time"
)

// coroutines hands over between coroutines, in releases that have them.
var coroutines = func() {}

func main() {
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	debug.SetGCPercent(-1)
	go forever()
	time.Sleep(time.Millisecond)
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		panic(err)
	}
	if err := trace.Start(file); err != nil {
		panic(err)
	}
	work()
	time.Sleep(1050 * time.Millisecond) // which begins a second generation
	work()
	trace.Stop()
	pprof.StopCPUProfile()
	file.Close()
}

func forever() { select {} }

func work() {
	ctx, task := trace.NewTask(context.Background(), "task")
	trace.WithRegion(ctx, "region", func() { trace.Log(ctx, "category", "message") })
	pingPong()
	lock()
	pipe()
	coroutines()
	collect()
	runtime.Gosched()
	spin()
	task.End()
}

func pingPong() {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for v := range ping {
			select {
			case pong <- v:
			}
		}
		close(pong)
	}()
	for i := 0; i < 3; i++ {
		ping <- i
		<-pong
	}
	close(ping)
}

func lock() {
	var mu sync.Mutex
	var wg sync.WaitGroup
	wg.Add(1)
	mu.Lock()
	go func() {
		mu.Lock()
		mu.Unlock()
		wg.Done()
	}()
	time.Sleep(100 * time.Microsecond)
	mu.Unlock()
	wg.Wait()
}

func pipe() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	go func() {
		time.Sleep(100 * time.Microsecond)
		w.Write([]byte("x"))
		w.Close()
	}()
	r.Read(make([]byte, 1))
	r.Close()
}

var garbage []byte

// collect makes the collector run once. It is not called for, because runtime.GC fills a trace with calls of Gosched; and
// it must not run again at once, because then the sweeper does.
func collect() {
	debug.SetGCPercent(10)
	garbage = make([]byte, 1<<20)
	debug.SetGCPercent(-1)
	time.Sleep(5 * time.Millisecond)
}

var spun int

// spin uses the processor, for the profiler to see.
func spin() {
	for end := time.Now().Add(12 * time.Millisecond); time.Now().Before(end); {
		spun++
	}
}
