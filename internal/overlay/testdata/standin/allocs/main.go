// Command allocs allocates in many ways, and compares what its goroutines have been found to allocate with runtime.MemStats.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/glti"
)

type node struct {
	next *node
	data [40]byte
}

var (
	sink   any
	sinkP  *int64
	sinkS  string
	sinkB  []byte
	sinkN  *node
	sinkPP []*node
	failed bool
)

// ways are ways to allocate. Objects are not counted for those with values that share objects.
var ways = []struct {
	name  string
	tiny  bool
	alloc func(i int)
}{
	{"int64", true, func(i int) { sinkP = new(int64) }},
	{"3 bytes", true, func(i int) { sinkB = make([]byte, 3) }},
	{"interface", true, func(i int) { sink = i + 1000 }},
	{"20 bytes", false, func(i int) { sinkB = make([]byte, 20) }},
	{"48 bytes with a pointer", false, func(i int) { sinkN = new(node) }},
	{"100 bytes", false, func(i int) { sinkB = make([]byte, 100+i%50) }},
	{"500 pointers", false, func(i int) { sinkPP = make([]*node, 500) }},
	{"3000 bytes", false, func(i int) { sinkB = make([]byte, 3000) }},
	{"40000 bytes", false, func(i int) { sinkB = make([]byte, 40000) }},
	{"50000 bytes of pointers", false, func(i int) { sinkPP = make([]*node, 50000/8) }},
	{"string", false, func(i int) { sinkS = strings.Repeat("x", 17+i%100) }},
	{"append", false, func(i int) {
		var b []byte
		for j := 0; j < 100; j++ {
			b = append(b, "0123456789abcdef"...)
		}
		sinkB = b
	}},
	{"map", true, func(i int) {
		m := map[int]*node{}
		for j := 0; j < 50; j++ {
			m[j] = &node{}
		}
		sink = m
	}},
}

// self returns what this goroutine has allocated.
func self() (bytes, objects uint64) {
	g, goid := glti.Self()
	bytes, objects, ok := glti.Allocs(g, goid)
	if !ok {
		fail("the running goroutine has ended")
	}
	return bytes, objects
}

func fail(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	failed = true
}

const times = 1000

func compare(phase string) {
	for _, w := range ways {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b0, o0 := self()
		for i := 0; i < times; i++ {
			w.alloc(i)
		}
		b1, o1 := self()
		runtime.ReadMemStats(&after)
		if got, want := b1-b0, after.TotalAlloc-before.TotalAlloc; got != want {
			fail("%s: %s: %d bytes, the runtime counts %d", phase, w.name, got, want)
		}
		if got, want := o1-o0, after.Mallocs-before.Mallocs; got != want && !w.tiny || got == 0 {
			fail("%s: %s: %d objects, the runtime counts %d", phase, w.name, got, want)
		}
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	for _, w := range ways { // warm up, without counting
		w.alloc(0)
	}
	if b, o := self(); b != 0 || o != 0 {
		fail("%d bytes and %d objects are counted although nobody counts", b, o)
	}
	glti.CountAllocs(true)
	compare("alone")

	var out bytes.Buffer
	if err := trace.Start(&out); err != nil {
		fail("%v", err)
	}
	trace.Stop()
	compare("after a trace")
	debug.SetGCPercent(100)
	runtime.GC()
	debug.SetGCPercent(-1)

	// Goroutines at the same time: each has what it allocates alone.
	runtime.GOMAXPROCS(4)
	var want uint64
	done := make(chan uint64)
	go func() { b0, _ := self(); work(); b1, _ := self(); done <- b1 - b0 }()
	want = <-done
	ended0, _ := glti.AllocsEnded()
	var wg sync.WaitGroup
	for i := 0; i < 20; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			b0, _ := self()
			work()
			if b1, _ := self(); b1-b0 != want {
				fail("%d bytes, alone %d", b1-b0, want)
			}
		}()
	}
	wg.Wait()
	ended, _ := glti.AllocsEnded()
	for i := 0; i < 5000 && ended-ended0 < 20*want; i++ { // until all have ended
		time.Sleep(time.Millisecond)
		ended, _ = glti.AllocsEnded()
	}
	if ended-ended0 < 20*want {
		fail("goroutines that have ended have allocated %d bytes, 20 of them %d each", ended-ended0, want)
	}
	glti.CountAllocs(false)
	b0, o0 := self()
	work()
	if b1, o1 := self(); b1 != b0 || o1 != o0 {
		fail("allocations are counted although nobody counts any more")
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}

//go:noinline
func work() {
	var list []*node
	var text [][]byte
	for i := 0; i < 5000; i++ {
		list = append(list, &node{})
		text = append(text, make([]byte, 16+i%200))
	}
	runtime.KeepAlive(list)
	runtime.KeepAlive(text)
}
