package main

import (
	"context"
	"os"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

var (
	sink  uint64
	units uint64 // of work that the loads have completed
)

// done counts a unit of work.
func done() { atomic.AddUint64(&units, 1) }

// step is inlined into the functions that use processor time.
func step(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// spin uses processor time, the same for each n.
//
//go:noinline
func spin(n int) {
	x := uint64(n) | 1
	for i := 0; i < n*1000; i++ {
		x = step(x)
	}
	if x == 0 {
		sink = x
	}
}

// shares uses 50, 30 and 20 % of its time in three functions.
func shares() {
	for {
		half()
		third()
		fifth()
		done()
	}
}

//go:noinline
func half() { spin(50); pad() }

//go:noinline
func third() { spin(30); pad() }

// fifth has the loop itself, in an inlined function.
//
//go:noinline
func fifth() {
	x := uint64(20)
	for i := 0; i < 20*1000; i++ {
		x = step(x)
	}
	if x == 0 {
		sink = x
	}
}

//go:noinline
func pad() {}

// labels has one goroutine for each set of labels: one, two, none, and labels that change.
func labels() {
	do := func(f func(), pairs ...string) {
		pprof.Do(context.Background(), pprof.Labels(pairs...), func(context.Context) { f() })
	}
	go do(forever, "tenant", "acme")
	go do(forever, "tenant", "globex", "path", "/orders?id=1")
	go forever()
	for {
		do(func() { spin(2000) }, "phase", "load", "empty", "")
		do(func() { spin(1000) }, "phase", "store")
	}
}

func forever() {
	for {
		spin(100)
	}
}

// deep recurses.
func deep() {
	for {
		recurse(40)
		recurse(30)
	}
}

//go:noinline
func recurse(n int) {
	if n == 0 {
		spin(50)
		return
	}
	recurse(n - 1)
	pad()
}

// kernel uses most of its time in system calls.
func kernel() {
	f, err := os.Open("/dev/zero")
	if err != nil {
		panic(err)
	}
	buf := make([]byte, 256<<10)
	for {
		if _, err := f.Read(buf); err != nil {
			panic(err)
		}
		spin(5)
		done()
	}
}

type tree struct{ left, right *tree }

//go:noinline
func grow(depth int) *tree {
	if depth == 0 {
		return &tree{}
	}
	return &tree{grow(depth - 1), grow(depth - 1)}
}

// garbage allocates all the time.
func garbage() {
	kept := grow(16)
	for {
		if t := grow(12); t.left == kept {
			sink++
		}
		done()
	}
}

// clock reads the time, which on most machines is not a system call.
func clock() {
	for {
		for i := 0; i < 100; i++ {
			if time.Now().IsZero() {
				sink++
			}
		}
		spin(1)
	}
}

// spawn creates goroutines that end soon.
func spawn() {
	for {
		ended := make(chan bool)
		for i := 0; i < 8; i++ {
			go func() {
				spin(5)
				ended <- true
			}()
		}
		for i := 0; i < 8; i++ {
			<-ended
		}
		done()
	}
}
