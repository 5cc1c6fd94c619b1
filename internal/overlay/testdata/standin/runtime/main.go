// Command runtime compares the events of system calls, of the heap, and of annotations with what it does, and then panics.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"sync"
	"syscall"

	"github.com/loupe-go/loupe/glti"
)

// The events, as in the runtime.
const (
	syscallBegin = 28
	syscallEnd   = 29
	heapAlloc    = 33
	nextGC       = 34
	assistStart  = 43
	assistDone   = 44
	taskCreate   = 45
	taskEnd      = 46
	region       = 47
	message      = 48
)

var (
	sinkMu sync.Mutex
	sink   []byte
)

func main() {
	systemCalls()
	heap()
	annotations()
	unhandled()
}

func systemCalls() {
	const n = 500
	_, self := glti.Self()
	runtime.LockOSThread() // one ring, so that records are in order
	glti.Drain()
	glti.Enable(syscallBegin, syscallEnd)
	for i := 0; i < n; i++ {
		syscall.Getpgid(0) // not one that the runtime treats as quick
		syscall.Close(-1)
	}
	glti.Enable()
	runtime.UnlockOSThread()
	begins, ends, inside := 0, 0, false
	for _, r := range glti.Drain() {
		if r.Goid != self {
			continue
		}
		switch r.Event {
		case syscallBegin:
			check(!inside, "a system call in another", r)
			begins++
			inside = true
		case syscallEnd:
			check(inside, "the end of no system call", r)
			ends++
			inside = false
		}
	}
	check(begins == ends && begins >= n, "system calls", [2]int{begins, ends})
}

func heap() {
	glti.Drain()
	debug.SetGCPercent(50)
	glti.Enable(heapAlloc, nextGC, assistStart, assistDone)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan bool)
	for w := 0; w < 4; w++ {
		go func() {
			for i := 0; i < 400; i++ {
				s := make([][]byte, 100)
				for j := range s {
					s[j] = make([]byte, 100)
				}
				sinkMu.Lock()
				sink = s[99]
				sinkMu.Unlock()
			}
			done <- true
		}()
	}
	for w := 0; w < 4; w++ {
		<-done
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	glti.Enable()
	check(glti.Lost() == 0, "lost", glti.Lost())
	count := map[uint8]int{}
	assisting := map[uint64]int{}
	for _, r := range glti.Drain() {
		count[r.Event]++
		switch r.Event {
		case heapAlloc:
			check(r.Args[0] < after.Sys, "more than the heap", r)
		case nextGC:
			check(r.Args[0] > 0, "no goal", r)
		case assistStart:
			assisting[r.Goid]++
		case assistDone:
			assisting[r.Goid]--
		}
	}
	for id, n := range assisting {
		// The records of a goroutine that changed its thread are in two rings; only their numbers are compared.
		check(n == 0, "assists that do not end", [2]any{id, n})
	}
	check(count[heapAlloc] > 0 && count[nextGC] >= int(after.NumGC-before.NumGC), "changes of the heap", count)
}

func annotations() {
	var list []glti.Annotation
	glti.Annotated(func(a glti.Annotation) { list = append(list, a) })
	glti.Enable(taskCreate, taskEnd, region, message)
	_, self := glti.Self()
	ctx, outer := trace.NewTask(context.Background(), "outer")
	inner, task := trace.NewTask(ctx, "inner")
	trace.WithRegion(inner, "with", func() {})
	trace.StartRegion(ctx, "start").End()
	trace.Log(inner, "key", "value")
	task.End()
	outer.End()
	glti.Enable()
	trace.StartRegion(ctx, "not wanted").End()
	trace.Log(ctx, "not", "wanted")
	check(len(list) == 9, "annotations", list)
	first, second := list[0].Args[0], list[1].Args[0]
	want := []glti.Annotation{
		{Event: taskCreate, Args: [2]uint64{first, 0}, Text: [2]string{"outer"}},
		{Event: taskCreate, Args: [2]uint64{second, first}, Text: [2]string{"inner"}},
		{Event: region, Args: [2]uint64{second, 0}, Text: [2]string{"with"}},
		{Event: region, Args: [2]uint64{second, 1}, Text: [2]string{"with"}},
		{Event: region, Args: [2]uint64{first, 0}, Text: [2]string{"start"}},
		{Event: region, Args: [2]uint64{first, 1}, Text: [2]string{"start"}},
		{Event: message, Args: [2]uint64{second}, Text: [2]string{"key", "value"}},
		{Event: taskEnd, Args: [2]uint64{second}},
		{Event: taskEnd, Args: [2]uint64{first}},
	}
	last := int64(0)
	for i, a := range list {
		check(a.Goid == self && a.Time >= last, "an annotation of another", a)
		last = a.Time
		a.Goid, a.Time = 0, 0
		check(a == want[i], "annotation", a)
	}
}

// unhandled ends the program by a panic, after the function for it has run.
func unhandled() {
	glti.Panicked(func(value any) {
		check(value == "on purpose", "the value of the panic", value)
		fmt.Println("ok")
		os.Exit(0)
	})
	func() {
		defer func() { recover() }()
		panic("recovered")
	}()
	panic("on purpose")
}

func check(ok bool, what string, value any) {
	if !ok {
		fmt.Printf("wrong: %s: %+v\n", what, value)
		os.Exit(1)
	}
}
