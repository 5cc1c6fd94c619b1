// Command storm does everything that causes events, while callbacks do what ordinary code does, the collector runs without a pause, and
// events are selected at random. Its argument is how long that lasts. Every operation has a known result.
package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// allEvents are the events of classes A and C, and those that only streams have.
const allEvents = 1<<49 - 1<<2

// Events that must happen.
const (
	procStart  = 5
	procStop   = 6
	sweepStart = 11
	sweepDone  = 12
	start      = 14
	unblock    = 21
	sysCall    = 28
	sysExit    = 29
	sysBlock   = 30
)

var (
	delivered atomic.Int64
	drained   atomic.Int64

	book struct { // what callbacks share
		sync.Mutex
		seen map[uint8]int
		last []byte
	}
)

// exact are the events whose time is taken when they are written to a buffer. Those are read in the order of time.
const exact = 1<<14 | 1<<18 | 1<<21 | 1<<28 | 1<<29

// rawEvents have raw callbacks, and rawCounts what those have counted. Threads may lose counts of each other.
var (
	rawEvents = []uint8{14, 16, 18, 19, 20, 22, 23, 24, 25, 26, 27, 28, 29, 42}
	rawCounts [64]uint64
)

// raw is a raw callback.
//
//go:nosplit
//go:norace
func raw(r *glti.RawRecord) { rawCounts[r.Event%64]++ }

// rawCallbacks returns raw callbacks for all events, or none.
func rawCallbacks(on bool) (list []*glti.Raw, mask uint64) {
	list = make([]*glti.Raw, len(rawEvents))
	for i, event := range rawEvents {
		if on {
			list[i], mask = &glti.Raw{Event: event, Call: raw}, mask|1<<event
			kept = append(kept, list[i])
		}
	}
	return list, mask
}

var kept []*glti.Raw // see package glti

// callback locks, allocates, uses channels and goroutines, grows the stack, yields and collects garbage.
func callback(r glti.Record) {
	n := delivered.Add(1)
	book.Lock()
	book.seen[r.Event]++
	book.last = append(make([]byte, 0, 1<<10), fmt.Sprint(r)...)
	book.Unlock()
	switch n % 64 {
	case 0:
		c := make(chan int)
		go func() { c <- deep(50) }()
		<-c
	case 1:
		deep(200)
	case 2:
		runtime.Gosched()
	case 3:
		glti.SetLocal(r.G, r.Goid, n)
	case 4:
		time.Sleep(time.Microsecond)
	case 5:
		func() {
			defer func() { recover() }()
			panic(n)
		}()
	}
}

func deep(n int) int {
	var pad [512]byte
	if n == 0 {
		return int(pad[0])
	}
	return deep(n-1) + int(pad[n%len(pad)])
}

// jobs run until done is closed.
var jobs = []func(done <-chan struct{}){
	func(done <-chan struct{}) { // channels
		a, b := make(chan int), make(chan int)
		go func() {
			for v := range a {
				b <- v + 1
			}
			close(b)
		}()
		until(done, func(i int) {
			a <- i
			v := <-b
			check(v == i+1, "channel", v)
		})
		close(a)
		<-b
	},
	func(done <-chan struct{}) { // locks and condition variables
		var mu sync.Mutex
		var wg sync.WaitGroup
		count := 0
		cond := sync.NewCond(&mu)
		until(done, func(int) {
			count = 0
			for w := 0; w < 4; w++ {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for j := 0; j < 50; j++ {
						mu.Lock()
						count++
						mu.Unlock()
					}
					cond.Broadcast()
				}()
			}
			mu.Lock()
			for count < 200 {
				cond.Wait()
			}
			mu.Unlock()
			wg.Wait()
			check(count == 200, "locks", count)
		})
	},
	func(done <-chan struct{}) { // timers, sleeps, select, Goexit
		until(done, func(int) {
			fired, ended := make(chan bool), make(chan bool)
			time.AfterFunc(10*time.Microsecond, func() { fired <- true })
			go func() { defer close(ended); time.Sleep(time.Microsecond); runtime.Goexit() }()
			for i := 0; i < 2; i++ {
				select {
				case <-fired:
				case <-ended:
					ended = nil
				}
			}
		})
	},
	func(done <-chan struct{}) { // network and system calls
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(err == nil, "listen", err)
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { io.Copy(c, c); c.Close() }()
			}
		}()
		until(done, func(i int) {
			c, err := net.Dial("tcp", l.Addr().String())
			check(err == nil, "dial", err)
			text := []byte(fmt.Sprint(i))
			for j := 0; j < 20; j++ {
				c.Write(text)
				back := make([]byte, len(text))
				_, err = io.ReadFull(c, back)
				check(err == nil && string(back) == string(text), "echo", err)
			}
			c.Close()
		})
	},
	func(done <-chan struct{}) { // memory, preemption, annotations
		until(done, func(i int) {
			ctx, task := trace.NewTask(context.Background(), "task")
			trace.WithRegion(ctx, "region", func() {
				list := make([][]byte, 100)
				for j := range list {
					list[j] = make([]byte, 1<<10)
				}
				sum := 0
				for j := 0; j < 1_000_000; j++ {
					sum += j & 1
				}
				check(sum == 500_000, "sum", sum)
			})
			task.End()
		})
	},
	func(done <-chan struct{}) { // selects events
		until(done, func(i int) {
			glti.EnableMask(rand.Uint64() & allEvents)
			glti.Count(rand.Uint64() & allEvents)
			glti.SetRaw(rawCallbacks(i%2 == 0))
			time.Sleep(time.Millisecond)
			glti.EnableMask(allEvents)
			time.Sleep(5 * time.Millisecond)
			check(len(glti.InState(31)) > 0, "no goroutine waits", i) // this one has been started by one that does
			glti.InState(32)
		})
	},
	func(done <-chan struct{}) { // collects garbage
		until(done, func(i int) { runtime.GC() })
	},
}

func until(done <-chan struct{}, f func(i int)) {
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
			f(i)
		}
	}
}

func main() {
	last, err := time.ParseDuration(os.Args[1])
	check(err == nil, "duration", err)
	debug.SetGCPercent(20)
	book.seen = map[uint8]int{}
	glti.Deliver(callback)
	glti.Annotated(func(glti.Annotation) { delivered.Add(1) })
	glti.EnableMask(allEvents)
	done, drains := make(chan struct{}), make(chan struct{})
	var seen [49]int // of the goroutine that drains
	go func() {
		defer close(drains)
		glti.Quiet()
		last := int64(0)
		until(done, func(int) {
			for _, r := range glti.Drain() {
				seen[r.Event]++
				check(r.Late && r.Time > 0 && r.Event < 49, "record", r)
				if exact>>r.Event&1 != 0 {
					check(r.Time >= last, "order", r)
					last = r.Time
				}
				drained.Add(1)
			}
			glti.Pause(rand.Intn(1 << 14))
		})
	}()
	var wg sync.WaitGroup
	for _, job := range jobs {
		job := job
		wg.Add(1)
		go func() { defer wg.Done(); job(done) }()
	}
	time.Sleep(last)
	close(done)
	wg.Wait()
	<-drains
	glti.Enable()
	check(delivered.Load() > 100 && drained.Load() > 100, "events", [2]int64{delivered.Load(), drained.Load()})
	for _, event := range []int{procStart, procStop, sweepStart, sweepDone, start, unblock, sysCall, sysExit, sysBlock} {
		check(seen[event] > 0 || last < time.Second, "no event", event)
	}
	for _, event := range []uint8{14, 19, 22, 23, 24, 26, 27, 28, 29} { // what the jobs cannot avoid
		check(rawCounts[event] > 0, "raw callbacks", event)
	}
	fmt.Println("ok", delivered.Load(), drained.Load(), glti.Lost())
}

func check(ok bool, what string, value any) {
	if !ok {
		fmt.Printf("wrong: %s: %+v\n", what, value)
		os.Exit(1)
	}
}
