// Command colony has goroutines that live long, on command.
//
// It adds the commands
//
//	hold N        N more goroutines that wait for a message, then `hold <goroutines>`
//	free          ends these, then `free <goroutines>`
//	leak N        N more goroutines that send to a channel that nobody receives from, then `leak <goroutines>`
//	lock N        N more goroutines that wait for a mutex that is held, then `lock <goroutines>`
//	churn N       creates N goroutines a second from now on, each of which ends at once; 0: no more; then `churn <created so far>`
//	traffic N     N pairs of goroutines exchange messages as fast as they can from now on; then `traffic N`
//	histogram M   the metric M of package runtime/metrics, then `histogram LOW:COUNT...` with lower bounds in nanoseconds, or `histogram none`
//	created       the goroutines of churn that were created, then `created N`
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	c := &colony{wake: make(chan struct{})}
	c.mu.Lock()
	serve(false, map[string]command{"hold": c.hold, "free": c.free, "leak": c.leak, "lock": c.lock, "churn": c.churn, "traffic": c.traffic,
		"histogram": histogram,
		"created":   func([]string) string { return fmt.Sprint("created ", atomic.LoadInt64(&c.created)) }})
}

type colony struct {
	wake    chan struct{}
	held    sync.WaitGroup
	others  int        // goroutines before the first hold
	mu      sync.Mutex // held for good
	rate    int64      // accessed atomically
	created int64      // the same
	once    sync.Once
}

func count(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "colony: %q is not a number\n", args[0])
		os.Exit(2)
	}
	return n
}

// start starts n goroutines and waits until they have all begun.
func start(n int, f func()) {
	var begun sync.WaitGroup
	begun.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			begun.Done()
			f()
		}()
	}
	begun.Wait()
}

func (c *colony) hold(args []string) string {
	n, wake := count(args), c.wake
	if c.others == 0 {
		c.others = runtime.NumGoroutine()
	}
	c.held.Add(n)
	for i := 0; i < n; i++ {
		go c.listen(wake)
	}
	return fmt.Sprint("hold ", runtime.NumGoroutine())
}

func (c *colony) listen(wake chan struct{}) {
	defer c.held.Done()
	<-wake
}

func (c *colony) free([]string) string {
	close(c.wake)
	c.held.Wait()
	c.wake = make(chan struct{})
	time.Sleep(time.Millisecond) // starts a goroutine of the runtime before Go 1.14
	for runtime.NumGoroutine() > c.others {
		time.Sleep(time.Millisecond)
	}
	return fmt.Sprint("free ", runtime.NumGoroutine())
}

func (c *colony) leak(args []string) string {
	start(count(args), func() { make(chan int) <- 1 })
	return fmt.Sprint("leak ", runtime.NumGoroutine())
}

func (c *colony) lock(args []string) string {
	start(count(args), c.mu.Lock)
	return fmt.Sprint("lock ", runtime.NumGoroutine())
}

func (c *colony) churn(args []string) string {
	atomic.StoreInt64(&c.rate, int64(count(args)))
	c.once.Do(func() { go c.create() })
	return fmt.Sprint("churn ", atomic.LoadInt64(&c.created))
}

// create creates goroutines at the rate that was asked for.
func (c *colony) create() {
	for {
		begin := time.Now()
		for due := atomic.LoadInt64(&c.rate) / 100; due > 0; due-- {
			atomic.AddInt64(&c.created, 1)
			go func() {}()
		}
		time.Sleep(10*time.Millisecond - time.Since(begin))
	}
}

func (c *colony) traffic(args []string) string {
	for i := count(args); i > 0; i-- {
		there, back := make(chan int), make(chan int)
		go func() {
			for v := range there {
				back <- v
			}
		}()
		go func() {
			for i := 0; ; i++ {
				there <- i
				<-back
			}
		}()
	}
	return fmt.Sprint("traffic ", args[0])
}
