// Package script does what causes events, and compares them with those that native agents have seen.
package script

/*
#cgo CFLAGS: -I${SRCDIR}/.. -I${SRCDIR}/../../../../../glti/include
#include "book.h"

static struct book *open_book(const char *variable) { return (struct book *)(uintptr_t)strtoull(getenv(variable), NULL, 10); }
static int32_t flush_book(struct book *b) { return b->flush(); }
static int32_t stop_book(struct book *b) { return b->stop(); }
static int32_t register_again(struct book *b) { return b->again(); }
static uint64_t lost_of_book(struct book *b) { return b->lost(); }
*/
import "C"

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// An Event is what an agent has seen.
type Event struct {
	Number    uint8
	Late      bool
	Time, End int64
	G, By     uint64 // goroutine IDs
	Args      [2]uint64
	Text      [2]string
}

// Events have the numbers of glti.h.
const (
	goStart, goStop, goPreempt, goBlock  = 14, 16, 18, 20
	gcStart, gcDone, stwStart            = 7, 8, 9
	goCreate, goEnd                      = 13, 15
	goSched, goSleep, goUnblock          = 17, 19, 21
	blockSend, blockRecv, blockSelect    = 22, 23, 24
	blockSync, blockCond, blockNet       = 25, 26, 27
	sysCall, sysExit                     = 28, 29
	taskCreate, taskEnd, region, userLog = 45, 46, 47, 48
	Rounds                               = 50
)

// Goroutine runs a function on a goroutine of the script.
type Goroutine struct {
	ID   uint64
	want map[uint8]int
	run  func()
}

// times returns the counts of an event for goroutines that do something Rounds times.
func times(events ...uint8) map[uint8]int {
	want := map[uint8]int{}
	for _, e := range events {
		want[e] += Rounds
	}
	return want
}

// Run runs the script, and returns its goroutines. There is no collection meanwhile: it yields so often that a busy machine loses events.
func Run() map[uint64]*Goroutine {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before, ids := runtime.NumGoroutine(), map[uint64]*Goroutine{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Check(err == nil, "listen", err)
	defer listener.Close()
	received, sent, chosen, none, locked := make(chan int), make(chan int), make(chan int), make(chan int), make(chan int)
	cond := sync.NewCond(new(sync.Mutex))
	const wait = 100 * time.Microsecond
	repeat := func(f func()) func() {
		return func() {
			for i := 0; i < Rounds; i++ {
				f()
			}
		}
	}
	here, _ := net.Dial("tcp", listener.Addr().String())
	there, _ := listener.Accept()
	var wg sync.WaitGroup
	list := []*Goroutine{
		{want: times(goSleep), run: repeat(func() { time.Sleep(time.Microsecond) })},
		{want: times(goSched), run: repeat(runtime.Gosched)},
		// Each of these waits for the next one, which begins later.
		{want: times(blockRecv), run: repeat(func() { <-received })},
		{run: repeat(func() { time.Sleep(wait); received <- 1 })},
		{want: times(blockSend), run: repeat(func() { sent <- 1 })},
		{run: repeat(func() { time.Sleep(wait); <-sent })},
		{want: times(blockSelect), run: repeat(func() {
			select {
			case <-chosen:
			case <-none:
			}
		})},
		{run: repeat(func() { time.Sleep(wait); chosen <- 1 })},
		{want: times(blockCond), run: repeat(func() { cond.L.Lock(); locked <- 1; cond.Wait(); cond.L.Unlock() })},
		{run: repeat(func() { <-locked; cond.L.Lock(); cond.L.Unlock(); cond.Signal() })},
		{want: times(blockSync), run: repeat(func() {
			var wg sync.WaitGroup
			wg.Add(1)
			time.AfterFunc(wait, wg.Done)
			wg.Wait()
		})},
		{want: times(blockNet), run: repeat(func() { here.Write([]byte{1}); io.ReadFull(here, make([]byte, 1)) })},
		{run: repeat(func() { io.ReadFull(there, make([]byte, 1)); time.Sleep(wait); there.Write([]byte{1}) })},
		{want: times(taskCreate, taskEnd, region, region, userLog), run: repeat(func() {
			ctx, task := trace.NewTask(context.Background(), "task")
			trace.WithRegion(ctx, "region", func() { trace.Log(ctx, "key", strings.Repeat("value", 100)) })
			task.End()
		})},
	}
	for i := 0; i < 100; i++ {
		list = append(list, &Goroutine{run: func() {}})
	}
	for _, g := range list {
		g := g
		wg.Add(1)
		go func() {
			defer wg.Done()
			g.ID = goid()
			g.run()
		}()
	}
	wg.Wait()
	for runtime.NumGoroutine() > before { // they end a moment later
		time.Sleep(time.Millisecond)
	}
	here.Close()
	there.Close()
	for _, g := range list {
		ids[g.ID] = g
	}
	return ids
}

// Compare compares what an agent has seen with what the goroutines have done.
func Compare(seen []Event, all map[uint64]*Goroutine) {
	got := map[uint64]map[uint8]int{}
	total := map[uint8]int{}
	for _, e := range seen {
		total[e.Number]++
		if got[e.G] == nil {
			got[e.G] = map[uint8]int{}
		}
		got[e.G][e.Number]++
		switch e.Number {
		case taskCreate:
			Check(e.Text == [2]string{"task", ""}, "text", e)
		case region:
			Check(e.Text == [2]string{"region", ""} && e.Args[1] < 2, "text", e)
		case userLog:
			Check(e.Text == [2]string{"key", strings.Repeat("value", 100)[:31]}, "text", e)
		}
		if _, ours := all[e.G]; ours {
			Check(e.Time > 0 && (e.End == 0 || e.End >= e.Time), "time", e)
		}
	}
	for id, g := range all {
		Check(got[id][goCreate] == 1 && got[id][goEnd] == 1, "life", id, got[id])
		for e, n := range g.want {
			// What it waits for can be there before, on a busy machine.
			early := e >= blockSend && e < sysCall && got[id][e] > 0 && got[id][e] < n
			Check(got[id][e] == n || early, "event", e, id, got[id][e], n)
		}
	}
	Check(total[blockNet] > 0 && total[sysCall] > 0 && total[sysExit] > 0 && total[goUnblock] > 0, "events", total)
}

// Agents returns the numbers of the agents.
func Agents() (list []string) {
	for _, name := range []string{"BOOK", "BOOK2"} {
		if C.getenv(C.CString(name)) != nil { // the environment of package os is older
			list = append(list, name)
		}
	}
	return list
}

// Collect runs a collection, and compares its events. The sweep that follows may lose events: it yields thousands of times.
func Collect(agents []string) {
	runtime.GC()
	for _, agent := range agents {
		total := map[uint8]int{}
		for _, e := range Seen(agent) {
			total[e.Number]++
		}
		Check(total[gcStart] > 0 && total[gcDone] > 0 && total[stwStart] > 1, "collection", total)
	}
}

// Lost returns the number of events that an agent has lost.
func Lost(agent string) uint64 { return uint64(C.lost_of_book(C.open_book(C.CString(agent)))) }

// Seen returns what an agent has seen until now.
func Seen(agent string) (seen []Event) {
	b := C.open_book(C.CString(agent))
	Check(C.flush_book(b) == 0, "flush")
	for _, s := range unsafe.Slice(b.list, int(b.n)) {
		e := s.event
		seen = append(seen, Event{uint8(e.number), e.late != 0, int64(e.time), int64(e.end), uint64(e.g.id), uint64(e.by.id),
			[2]uint64{uint64(e.args[0]), uint64(e.args[1])}, [2]string{C.GoString(&s.text[0][0]), C.GoString(&s.text[1][0])}})
	}
	return seen
}

// Raw returns how often the raw callback of an agent was called for each event.
func Raw(agent string) (counts [64]uint64) {
	for i, n := range C.open_book(C.CString(agent)).raw {
		counts[i] = uint64(n)
	}
	return counts
}

// CompareRaw compares the numbers of calls of raw callbacks with those of events. They go on: a goroutine of the runtime may run.
func CompareRaw(counts [64]uint64, seen []Event) {
	var total [64]uint64
	for _, e := range seen {
		total[e.Number]++
	}
	for e, n := range total {
		switch e {
		case goStart, goStop, goPreempt, goBlock, blockSend, blockRecv, blockSelect, blockSync, blockCond, blockNet, sysCall, sysExit:
			Check(counts[e] >= n && counts[e] < n+1000, "raw", e, counts[e], n)
		default:
			Check(counts[e] == 0, "raw", e, counts[e])
		}
	}
}

// again lets an agent register for what exists.
func again(agent string) int { return int(C.register_again(C.open_book(C.CString(agent)))) }

// Stop unregisters the callbacks of an agent.
func Stop(agent string) { Check(C.stop_book(C.open_book(C.CString(agent))) == 0, "stop") }

// goid returns the ID that a traceback has.
func goid() uint64 {
	var buf [64]byte
	id, err := strconv.ParseUint(strings.Fields(string(buf[:runtime.Stack(buf[:], false)]))[1], 10, 64)
	Check(err == nil, "stack", err)
	return id
}

// Check ends the program if something is wrong.
func Check(ok bool, what string, values ...any) {
	if !ok {
		fmt.Println("wrong", what, values)
		os.Exit(1)
	}
}
