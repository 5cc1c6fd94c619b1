// Command blocks lets a goroutine wait in each way a known number of times, and compares the events with that.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// The events, as in the runtime.
const (
	gcStart   = 7
	gcDone    = 8
	stwStart  = 9
	stwDone   = 10
	start     = 14
	stop      = 16
	sched     = 17
	preempt   = 18
	sleep     = 19
	unblock   = 21
	send      = 22
	recv      = 23
	selected  = 24
	lock      = 25
	cond      = 26
	network   = 27
	rounds    = 20
	tolerance = int64(time.Second)
)

// An operation waits rounds times, in the goroutine that runs it.
type operation struct {
	name  string
	event uint8
	// exact is false if the operation may wait more often.
	exact bool
	run   func(wait func())
}

var operations = []operation{
	{"send", send, true, func(wait func()) {
		c := make(chan int)
		each(wait, func() { <-c }, func() { c <- 1 })
	}},
	{"receive", recv, true, func(wait func()) {
		c := make(chan int)
		each(wait, func() { c <- 1 }, func() { <-c })
	}},
	{"receive with ok", recv, true, func(wait func()) {
		c := make(chan int)
		each(wait, func() { c <- 1 }, func() { _, ok := <-c; check(ok, "ok", ok) })
	}},
	{"select", selected, true, func(wait func()) {
		a, b := make(chan int), make(chan int)
		each(wait, func() { b <- 1 }, func() {
			select {
			case <-a:
			case <-b:
			}
		})
	}},
	{"lock", lock, false, func(wait func()) {
		var mu sync.Mutex
		mu.Lock()
		each(wait, mu.Unlock, mu.Lock)
	}},
	{"read lock", lock, false, func(wait func()) {
		var mu sync.RWMutex
		each(func() {}, func() {}, func() {
			mu.Lock()
			done := make(chan bool)
			go func() { wait(); mu.Unlock(); close(done) }()
			mu.RLock()
			mu.RUnlock()
			for !closed(done) {
				runtime.Gosched()
			}
		})
	}},
	{"wait group", lock, false, func(wait func()) {
		var wg sync.WaitGroup
		wg.Add(1)
		each(wait, wg.Done, func() { wg.Wait(); wg.Add(1) })
	}},
	{"condition", cond, true, func(wait func()) {
		var mu sync.Mutex
		c := sync.NewCond(&mu)
		mu.Lock()
		each(wait, func() { mu.Lock(); c.Signal(); mu.Unlock() }, c.Wait)
	}},
	{"sleep", sleep, true, func(func()) {
		for i := 0; i < rounds; i++ {
			time.Sleep(time.Millisecond)
		}
	}},
	{"yield", sched, true, func(func()) {
		for i := 0; i < rounds; i++ {
			runtime.Gosched()
		}
	}},
	{"network", network, false, func(wait func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(err == nil, "listen", err)
		defer l.Close()
		a, err := net.Dial("tcp", l.Addr().String())
		check(err == nil, "dial", err)
		b, err := l.Accept()
		check(err == nil, "accept", err)
		buf := make([]byte, 1)
		each(wait, func() { a.Write([]byte{1}) }, func() { io.ReadFull(b, buf) })
	}},
}

// each lets the running goroutine wait rounds times, until another one ends the wait.
func each(wait func(), end, begin func()) {
	turn := make(chan bool, 1)
	go func() {
		for range turn {
			wait()
			end()
		}
	}()
	for i := 0; i < rounds; i++ {
		turn <- true
		begin()
	}
	close(turn)
}

func closed(c chan bool) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

var (
	mu    sync.Mutex
	found []glti.Record
	late  []glti.Record
)

func main() {
	glti.Deliver(func(r glti.Record) {
		_, id := glti.Self()
		check(id == r.Goid, "delivered on another goroutine", r)
		c := make(chan int) // a callback may wait, which is no event
		go func() { c <- 1 }()
		<-c
		mu.Lock()
		found = append(found, r)
		mu.Unlock()
	})
	for _, op := range operations {
		glti.Enable(op.event)
		ids := make(chan uint64)
		go func() {
			_, id := glti.Self()
			// The goroutine that ends the waits does so when this one waits: it has no other way to know than time.
			op.run(func() { time.Sleep(500 * time.Microsecond) })
			ids <- id
		}()
		id := <-ids
		glti.Enable()
		compare(op, id)
	}
	scheduler()
	collector()
	fmt.Println("ok")
}

func compare(op operation, id uint64) {
	late = append(late, glti.Drain()...)
	mu.Lock()
	defer mu.Unlock()
	n := 0
	for _, r := range append(late, found...) {
		if r.Goid != id {
			continue
		}
		check(r.Event == op.event, op.name, r)
		check(r.Time > 0 && r.End >= r.Time && r.End-r.Time < 60*tolerance, op.name+": times", r)
		if op.event == sleep {
			check(r.End-r.Time >= int64(time.Millisecond), "a sleep that is too short", r)
		}
		n++
	}
	// A slow machine may have ended a wait before it began.
	check(n > 0 && (n <= rounds || !op.exact), op.name+": events", n)
	if op.event == sleep || op.event == sched {
		check(n == rounds, op.name+": events", n)
	}
	late, found = nil, nil
}

// scheduler checks that each goroutine that is woken starts afterwards.
func scheduler() {
	glti.Drain()
	glti.Enable(start, unblock)
	_, self := glti.Self()
	c, ids := make(chan int), make(chan uint64, 1)
	go func() {
		_, id := glti.Self()
		ids <- id
		for range c {
		}
	}()
	id := <-ids
	for i := 0; i < rounds; i++ {
		c <- i
		time.Sleep(time.Millisecond)
	}
	glti.Enable()
	woken, bySelf, starts := int64(0), 0, 0
	for _, r := range sorted(glti.Drain()) {
		check(r.Late, "not late", r)
		if r.Goid != id {
			continue
		}
		switch r.Event {
		case unblock:
			check(woken == 0, "woken twice", r)
			woken = r.Time
			if r.ByGoid == self {
				bySelf++
			}
		case start:
			check(woken == 0 || r.Time >= woken, "started before it was woken", r)
			woken = 0
			starts++
		}
	}
	check(bySelf > 0 && starts >= bySelf, "wake-ups", bySelf)
}

// collector checks the order of the events of collections.
func collector() {
	glti.Drain()
	glti.Enable(gcStart, gcDone, stwStart, stwDone)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := 0; i < rounds; i++ {
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	glti.Enable()
	count := map[uint8]uint64{}
	running, stopped := false, false
	for _, r := range sorted(glti.Drain()) {
		count[r.Event]++
		switch r.Event {
		case gcStart:
			check(!running, "a collection in another", r)
			running = true
		case gcDone:
			check(running, "a collection that did not begin", r)
			running = false
		case stwStart:
			check(!stopped, "stopped twice", r)
			stopped = true
		case stwDone:
			check(stopped, "not stopped", r)
			stopped = false
		}
	}
	want := uint64(after.NumGC - before.NumGC)
	check(count[gcStart] == want && count[gcDone] == want, "collections", count)
	check(count[stwStart] == 2*want && count[stwDone] == 2*want, "pauses", count)
}

// sorted sorts records of several rings by time.
func sorted(list []glti.Record) []glti.Record {
	for i := range list {
		for j := i; j > 0 && list[j].Time < list[j-1].Time; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

func check(ok bool, what string, value any) {
	if !ok {
		fmt.Printf("wrong: %s: %+v\n", what, value)
		os.Exit(1)
	}
}
