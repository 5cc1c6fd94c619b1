// Command tracing traces itself as an application does, with package runtime/trace, while two agents register callbacks for all events and
// remove them again. It writes its traces to a directory, and prints how many goroutines each is to contain.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/glti"
)

const (
	traces     = 3
	goroutines = 500 // in each
)

func main() {
	dir := os.Args[1]
	first, second := glti.NewEnv("first"), glti.NewEnv("second")
	var events atomic.Int64
	register(first, &events)
	end := make(chan bool)
	var agents sync.WaitGroup
	agents.Add(1)
	go func() { // comes and goes
		defer agents.Done()
		for {
			select {
			case <-end:
				return
			default:
				for _, r := range register(second, &events) {
					r.Unregister()
				}
			}
		}
	}()
	for i := 0; i < traces; i++ {
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.trace", i)))
		check(err)
		check(trace.Start(file))
		if !trace.IsEnabled() {
			check(fmt.Errorf("the trace is not enabled"))
		}
		before := events.Load()
		work()
		trace.Stop()
		check(file.Close())
		first.Trace.Flush()
		if n := events.Load() - before; n < goroutines {
			check(fmt.Errorf("the agents received %d events", n))
		}
	}
	recordFlight(filepath.Join(dir, fmt.Sprintf("%d.trace", traces)))
	close(end)
	agents.Wait()
	first.Close()
	second.Close()
	fmt.Println("ok", goroutines)
}

func check(err error) {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// register registers a callback for each event that there is.
func register(env *glti.GLTIEnv, events *atomic.Int64) (all []*glti.Registration) {
	for _, ev := range glti.Events() {
		if r, err := env.Trace.Handle(ev, func(glti.Record) { events.Add(1) }); err == nil {
			all = append(all, r)
		}
	}
	return all
}

func work() {
	var wg sync.WaitGroup
	c := make(chan int)
	for i := 0; i < goroutines; i++ {
		wg.Add(1)
		go traced(&wg, c, i)
	}
	for i := 0; i < goroutines; i++ {
		<-c
	}
	wg.Wait()
}

func traced(wg *sync.WaitGroup, c chan int, i int) {
	defer wg.Done()
	if i%50 == 0 {
		time.Sleep(time.Millisecond)
	}
	c <- i
}
