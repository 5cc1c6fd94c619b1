// Command sched compares the events of processors, system calls, sweeping and starts with what it does, with each other, and with Go 1.21 with
// an execution trace of the same time; and the goroutines that wait with a traceback.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/trace"
	"sort"
	"sync"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// The events, as in the runtime.
const (
	procStart    = 5
	procStop     = 6
	sweepStart   = 11
	sweepDone    = 12
	create       = 13
	start        = 14
	unblock      = 21
	sysCall      = 28
	sysExit      = 29
	sysBlock     = 30
	startLocal   = 38
	unblockLocal = 39
	sysExitLocal = 40
	startLabel   = 41
	lastEvent    = 48
)

// coroutines checks the events of coroutines, which Go 1.23 and later have.
var coroutines = func() {}

func main() {
	states()
	calls()
	locals()
	labels()
	coroutines()
	traced()
	check(glti.Lost() == 0, "lost events", glti.Lost())
	fmt.Println("ok")
}

// of returns the records of a goroutine.
func of(list []glti.Record, id uint64) (own []glti.Record) {
	for _, r := range list {
		if r.Goid == id {
			own = append(own, r)
		}
	}
	return own
}

// recorded returns the records of what f does, sorted by time.
func recorded(f func(), events ...uint8) []glti.Record {
	glti.Drain()
	glti.Enable(events...)
	stop, all := make(chan bool), make(chan []glti.Record)
	go func() {
		glti.Quiet()
		var list []glti.Record
		for {
			select {
			case <-stop:
				all <- append(list, glti.Drain()...)
				return
			default:
				list = append(list, glti.Drain()...)
				time.Sleep(time.Millisecond)
			}
		}
	}()
	f()
	glti.Enable()
	close(stop)
	list := <-all
	sort.SliceStable(list, func(i, j int) bool { return list[i].Time < list[j].Time })
	for _, r := range list {
		check(r.Late && r.Time > 0, "record", r)
	}
	return list
}

// calls compares the system calls of goroutines, some of which lose their processor, with each other and with what processors do.
func calls() {
	const blocked, quick = 10, 300
	runtime.GOMAXPROCS(1)
	_, self := glti.Self()
	var reader uint64
	list := recorded(func() {
		for i := 0; i < quick; i++ {
			syscall.Close(-1)
		}
		reader = readPipe(blocked)
		runtime.GOMAXPROCS(4)
		spread(4, func() { syscall.Close(-1) })
		runtime.GOMAXPROCS(2)
	}, procStart, procStop, sysCall, sysExit, sysBlock, start)
	for _, id := range []uint64{self, reader} {
		state, count := uint8(0), map[uint8]int{}
		for _, r := range of(list, id) {
			was := state
			state = r.Event
			switch {
			case r.Event == sysCall:
				count[sysCall]++
				check(was != sysCall && was != sysBlock && r.P >= 0, "a system call in another", r)
			case r.Event == sysBlock:
				count[sysBlock]++
				check(was == sysCall && r.P >= 0, "blocked in no system call", r)
			case r.Event == sysExit && r.Args[1] == 1:
				check(was == sysCall && r.P >= 0, "a system call that is over and had no begin, or was blocked", r)
			case r.Event == sysExit:
				check(was == sysBlock, "a system call that was not blocked has lost its processor", r)
			case r.Event == start:
				check(was != sysCall && was != sysBlock, "a start in a system call", r)
			}
			check(was != sysExit || state != sysBlock, "blocked after the end", r)
		}
		check(id != self || count[sysCall] >= quick, "system calls", count)
		check(id != reader || count[sysBlock] >= blocked, "system calls that were blocked", count)
	}
	procs(list)
}

// readPipe lets a goroutine read from a pipe n times, each time until this one has seen that it waits, and returns which.
func readPipe(n int) uint64 {
	var fds [2]int
	check(syscall.Pipe(fds[:]) == nil, "pipe", fds)
	ids, done := make(chan uint64), make(chan bool)
	go func() {
		_, id := glti.Self()
		buf := make([]byte, 1)
		for i := 0; i < n; i++ {
			ids <- id
			syscall.Read(fds[0], buf)
		}
		syscall.Close(fds[0])
		close(done)
	}()
	var id uint64
	for i := 0; i < n; i++ {
		id = <-ids
		for !in(glti.InState(inSyscall), id) {
			runtime.Gosched()
		}
		time.Sleep(15 * time.Millisecond) // the runtime takes the processor after 10 ms at most
		syscall.Write(fds[1], []byte{0})
	}
	<-done
	syscall.Close(fds[1])
	return id
}

// spread runs f in n goroutines at once, many times.
func spread(n int, f func()) {
	var wg sync.WaitGroup
	for i := 0; i < n; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := 0; j < 200; j++ {
				f()
				if j%10 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	wg.Wait()
}

// procs checks that each processor stops and starts in turn.
func procs(list []glti.Record) {
	last, count := map[int32]uint8{}, map[uint8]int{}
	for _, r := range list {
		if r.Event != procStart && r.Event != procStop {
			continue
		}
		check(r.G == 0 && r.P >= 0 && r.P < 4, "a processor", r)
		check(last[r.P] != r.Event, "a processor starts or stops twice", r)
		check(glti.Proc(r.P) != 0, "the address of a processor", r)
		last[r.P] = r.Event
		count[r.Event]++
	}
	check(len(last) >= 2 && count[procStart] > 4 && count[procStop] > 4, "processors", count)
	check(glti.Proc(-1) == 0 && glti.Proc(1<<30) == 0, "the address of no processor", 0)
}

// locals checks which events of goroutines are marked as local.
func locals() {
	runtime.GOMAXPROCS(4)
	for others := 0; others == 0; {
		others = marks()
	}
	// With one processor, all are local, except the first ones.
	runtime.GOMAXPROCS(1)
	seen := map[uint64]bool{}
	for _, r := range recorded(func() { spread(4, runtime.Gosched) }, start, startLocal) {
		check(!seen[r.Goid] || r.Args[1]&1 != 0, "a start on another processor", r)
		seen[r.Goid] = true
	}
	// The variants alone are marks in the records of the events.
	marked := map[uint8]bool{}
	for _, r := range recorded(func() { spread(4, func() { syscall.Close(-1) }) }, startLocal, sysExitLocal) {
		check(r.Event == start || r.Event == sysExit, "an event that was not wanted", r)
		marked[r.Event] = marked[r.Event] || r.Args[1]&1 != 0
	}
	check(marked[start] && marked[sysExit], "local events", marked)
	runtime.GOMAXPROCS(4)
}

// marks computes from the processors of events which ones are local, and compares the marks with that. It returns how many were not.
func marks() (others int) {
	list := recorded(func() {
		a, b := make(chan int), make(chan int)
		go func() {
			for v := range a {
				b <- v
			}
			close(b)
		}()
		spread(4, func() { a <- 1; <-b })
		close(a)
		<-b
	}, start, unblock, startLocal, unblockLocal)
	lastP, count := map[uint64]int32{}, map[uint8]int{}
	for _, r := range list {
		check(r.P >= 0 || r.Event == unblock, "the processor", r)
		if p, known := lastP[r.Goid]; known && r.P >= 0 {
			local := p == r.P
			check(local == (r.Args[1]&1 != 0), "local, or not", [2]any{p, r})
			if local {
				count[r.Event]++
			} else {
				others++
			}
		}
		if r.P >= 0 {
			lastP[r.Goid] = r.P
		}
	}
	check(count[start] > 0 && count[unblock] > 0, "local events", count)
	return others
}

// labels checks that workers of the collector have a label, and no others.
func labels() {
	workers := map[uint64]bool{}
	for len(workers) == 0 {
		for _, r := range recorded(func() { spread(2, allocate); runtime.GC() }, startLabel) {
			check(r.Event == start && r.Args[1]>>1 <= 3, "a label", r)
			if r.Args[1]>>1 != 0 {
				workers[r.Goid] = true
			}
		}
	}
	for id := range listed() { // those of the runtime have no tracebacks
		check(!workers[id], "no worker of the collector", id)
	}
}

var (
	sinkMu sync.Mutex
	sink   [64][]byte
)

func allocate() {
	b := make([]byte, 3000)
	sinkMu.Lock()
	sink[len(b)%7+int(b[0])] = b
	sinkMu.Unlock()
}

// sums are numbers of events.
type sums struct {
	events           [lastEvent + 1]int
	swept, reclaimed uint64
}

// traced compares events with an execution trace of the same time. Everything is swept when that begins and ends.
func traced() {
	var out bytes.Buffer
	runtime.GC()
	list := recorded(func() {
		check(trace.Start(&out) == nil, "trace", nil)
		for i := 0; i < 3; i++ {
			garbage()
			readPipe(3)
			runtime.GC()
			garbage()
		}
		runtime.GC()
		trace.Stop()
	}, procStart, procStop, sweepStart, sweepDone, sysBlock)
	var own sums
	sweeping := map[int32]bool{}
	for _, r := range list {
		own.events[r.Event]++
		switch r.Event {
		case sweepStart:
			check(!sweeping[r.P] && r.P >= 0, "sweeps twice", r)
			sweeping[r.P] = true
		case sweepDone:
			check(sweeping[r.P] && r.Args[0] > 0 && r.Args[1] <= r.Args[0], "swept", r)
			sweeping[r.P] = false
			own.swept += r.Args[0]
			own.reclaimed += r.Args[1]
		}
	}
	check(own.events[sweepDone] > 0 && own.reclaimed > 0 && own.events[sweepStart] == own.events[sweepDone], "sweeps", own)
	truth, ok := firstFormat(out.Bytes())
	if !ok {
		return // a newer format: the tests of package glti read it
	}
	check(own.swept == truth.swept && own.reclaimed == truth.reclaimed, "bytes swept and reclaimed", [2]sums{own, truth})
	for event, slack := range map[int]int{sweepStart: 0, sweepDone: 0, sysBlock: 4, procStart: 40, procStop: 40} {
		n := own.events[event] - truth.events[event] // the records begin earlier and end later
		check(-1 <= n && n <= slack && truth.events[event] > 0, fmt.Sprint("events ", event), [2]sums{own, truth})
	}
}

// garbage makes small objects, whose spans are swept where more of them are allocated after a collection.
func garbage() {
	for i := 0; i < 4; i++ {
		var list [][]byte
		for j := 0; j < 20_000; j++ {
			list = append(list, make([]byte, 16+j%500))
		}
		sinkMu.Lock()
		sink[0] = list[len(list)-1]
		sinkMu.Unlock()
	}
}

func check(ok bool, what string, value any) {
	if !ok {
		fmt.Printf("wrong: %s: %+v\n", what, value)
		os.Exit(1)
	}
}
