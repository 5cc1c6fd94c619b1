package main

import (
	"math"
	"sync"
	"time"
	"unsafe"
)

func channels() {
	const n = 500
	c, back := make(chan int), make(chan int)
	go func() {
		total := 0
		for v := range c {
			total += v
		}
		back <- total
	}()
	for i := 1; i <= n; i++ {
		c <- i
	}
	close(c)
	if got := <-back; got != n*(n+1)/2 {
		fail("channels: %d", got)
	}
}

func mutexes() {
	const n = 200
	var m sync.Mutex
	var wg sync.WaitGroup
	total := 0
	for i := 0; i < 4; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := 0; j < n; j++ {
				m.Lock()
				total++
				m.Unlock()
			}
		}()
	}
	wg.Wait()
	if total != 4*n {
		fail("mutexes: %d", total)
	}
}

var seriesWant = series()

// series keeps floating-point registers in use.
//
//go:noinline
func series() float64 {
	a, b, c := 0.0, 1.0, 0.5
	for i := 1; i < 20000; i++ {
		x := float64(i)
		a += 1 / (x * x)
		b = b*0.999 + math.Sqrt(x)
		c = c*1.0000001 + a*b
	}
	return a + b + c
}

func floats() {
	if got := series(); got != seriesWant {
		fail("floats: %v, want %v", got, seriesWant)
	}
}

// copies keeps vector registers in use, by the runtime's memmove and by strings that are compared.
func copies() {
	from, to := make([]byte, 100003), make([]byte, 100003)
	for i := range from {
		from[i] = byte(i * 7)
	}
	for i := 0; i < 20; i++ {
		copy(to, from)
		if string(to) != string(from) {
			fail("copies: unequal")
		}
		copy(to[i:], from)
		if to[i+50000] != from[50000] {
			fail("copies: shifted")
		}
	}
}

// stacks has a goroutine's stack grow, by its own calls, and shrink, by the collector. Both moves it to another place.
func stacks() {
	ended := make(chan bool)
	go func() {
		defer close(ended)
		var local [64]uint64
		for i := range local {
			local[i] = uint64(i) * 3
		}
		small := uintptr(unsafe.Pointer(&local))
		const depth = 2000 // half a megabyte, more than a goroutine begins with in any release
		if got := descend(depth); got != depth*(depth+1)/2 {
			fail("stacks: the sum is %d", got)
		}
		large := uintptr(unsafe.Pointer(&local))
		if large == small {
			fail("stacks: %#x has not grown", large)
		}
		for uintptr(unsafe.Pointer(&local)) == large {
			time.Sleep(time.Millisecond)
		}
		for i := range local {
			if local[i] != uint64(i)*3 {
				fail("stacks: %d at %d", local[i], i)
			}
		}
	}()
	<-ended
}

// descend adds 1 to n with a frame of a quarter kilobyte for each.
//
//go:noinline
func descend(n uint64) uint64 {
	var pad [32]uint64
	pad[n%32] = n
	if n == 0 {
		return 0
	}
	return descend(n-1) + pad[n%32]
}
