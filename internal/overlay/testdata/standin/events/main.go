// Command events creates and ends a known number of goroutines in known ways, and compares the events with them.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/loupe-go/loupe/glti"
)

const (
	goCreate = 13
	goEnd    = 15
)

var (
	mu      sync.Mutex
	records []glti.Record
)

// Other events that are counted.
const (
	gcStart       = 7
	goSched       = 17
	goSleep       = 19
	goBlockRecv   = 23
	goBlockSelect = 24
)

// counters counts events, while nothing else of the tool interface is used and later while it is.
func counters() {
	for _, mask := range []uint64{1<<gcStart | 1<<goCreate | 1<<goEnd | 1<<goSched | 1<<goSleep | 1<<goBlockRecv | 1<<goBlockSelect, 1<<49 - 1<<2} {
		before := map[uint8]uint64{}
		events := []uint8{gcStart, goCreate, goEnd, goSched, goSleep, goBlockRecv, goBlockSelect}
		for _, e := range events {
			before[e] = glti.Counted(e)
		}
		glti.Count(mask)
		const n = 50
		never := make(chan int)
		for i := 0; i < n; i++ {
			c, d, done := make(chan int), make(chan int), make(chan bool)
			go func() {
				defer close(done)
				<-c
				select {
				case <-d:
				case <-never:
				}
			}()
			time.Sleep(200 * time.Microsecond)
			c <- 1
			runtime.Gosched()
			time.Sleep(200 * time.Microsecond)
			d <- 1
			<-done
		}
		time.Sleep(time.Millisecond) // the last has ended
		count := map[uint8]uint64{}
		for _, e := range events {
			count[e] = glti.Counted(e) - before[e]
		}
		// The runtime creates some goroutines, which do not end, and a busy machine may have something arrive before it is waited for.
		check(count[goCreate] >= n && count[goCreate] < n+30, "created", count)
		check(count[goEnd] >= n && count[goEnd] < n+30, "ended", count)
		check(count[goSched] >= n, "yields", count)
		check(count[goSleep] >= 2*n && count[goSleep] < 3*n, "sleeps", count)
		check(count[goBlockRecv] >= n/2 && count[goBlockRecv] <= 2*n+30, "receives", count)
		check(count[goBlockSelect] >= n/2 && count[goBlockSelect] < n+30, "selects", count)
		runtime.GC()
		check(glti.Counted(gcStart) > before[gcStart], "collections", count)
		glti.Count(0)
		ended := glti.Counted(goCreate)
		done := make(chan bool)
		go close(done)
		<-done
		check(glti.Counted(goCreate) == ended, "counted after the end", glti.Counted(goCreate)-ended)
	}
}

func main() {
	check(len(glti.Stamp()) == 45, "stamp", glti.Stamp())
	counters()
	glti.Deliver(func(r glti.Record) {
		// What ordinary code does: a lock, memory, a channel, a goroutine, a deep stack.
		mu.Lock()
		records = append(records, r)
		mu.Unlock()
		c := make(chan int, 1)
		go func() { c <- deep(100) }()
		<-c
	})
	glti.Enable(goCreate, goEnd)
	const workers = 100
	ids := make(chan uint64, workers)
	_, self := glti.Self()
	var wg sync.WaitGroup
	for i := 0; i < workers; i++ {
		wg.Add(1)
		i := i
		go func() {
			defer wg.Done()
			_, id := glti.Self()
			ids <- id
			if i%2 == 0 {
				runtime.Goexit()
			}
		}()
	}
	wg.Wait()
	// A goroutine that a timer starts has no creator.
	fired := make(chan uint64)
	time.AfterFunc(time.Millisecond, func() { _, id := glti.Self(); fired <- id })
	timer := <-fired
	mine := map[uint64]bool{timer: true}
	for i := 0; i < workers; i++ {
		mine[<-ids] = true
	}
	var all, late []glti.Record
	for {
		late = append(late, glti.Drain()...)
		mu.Lock()
		all = append(late[:len(late):len(late)], records...)
		mu.Unlock()
		if count(all, goEnd, mine) == workers+1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	glti.Enable()
	check(count(all, goCreate, mine) == workers+1, "created", count(all, goCreate, mine))
	created := map[uint64]int64{}
	for _, r := range all {
		if !mine[r.Goid] {
			continue
		}
		check(r.Time > 0, "time", r)
		check(r.Event != goEnd || r.P >= 0, "the processor", r)
		check(r.Late == (r.Goid == timer && r.Event == goCreate), "late", r)
		if r.Event == goCreate {
			check(r.Goid == timer || r.ByGoid == self, "creator", r)
			created[r.Goid] = r.Time
		}
	}
	for _, r := range all {
		if r.Event == goEnd && mine[r.Goid] {
			check(created[r.Goid] <= r.Time, "order", r)
		}
	}
	fmt.Println("ok", glti.Lost())
}

func deep(n int) int {
	var pad [256]byte
	if n == 0 {
		return int(pad[0])
	}
	return deep(n-1) + int(pad[n])
}

func count(all []glti.Record, event uint8, ids map[uint64]bool) int {
	n := 0
	for _, r := range all {
		if r.Event == event && ids[r.Goid] {
			n++
		}
	}
	return n
}

func check(ok bool, what string, value any) {
	if !ok {
		fmt.Println("wrong", what, value)
		os.Exit(1)
	}
}
