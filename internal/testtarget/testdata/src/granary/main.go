// Command granary allocates objects of known sizes on known stacks, and waits for
// locks and channels. It writes the profiles that its own runtime keeps.
//
//	granary RATE     sets runtime.MemProfileRate, if RATE is not "default"
//
// With the build tag bare it does not use runtime.MemProfile.
// The garbage collector runs only on command. Granary adds the commands
//
//	fill             allocates, drops a part of it, and answers `filled`
//	cycles N         makes N cycles of the garbage collector start by themselves
//	profile NAME F   writes the profile with this name to the file F
//	enable B M       sets the rates of the block and mutex profiles
//	contend          waits for locks and channels
//	rate N           sets runtime.MemProfileRate
//	storm            allocates and frees pairs of objects at full speed, and
//	                 collects garbage all the time, until the end
//	crowd N          allocates on N different stacks
package main

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kept keeps objects alive.
var kept []interface{}

func main() {
	if len(os.Args) > 1 && os.Args[1] != "default" {
		runtime.MemProfileRate, _ = strconv.Atoi(os.Args[1])
	}
	debug.SetGCPercent(-1)
	serve(false, map[string]command{"fill": fill, "cycles": cycles, "profile": writeProfile, "enable": enable,
		"contend": contend, "rate": setRate, "storm": storm, "crowd": crowd})
}

func fill([]string) string {
	for i := 0; i < 300; i++ {
		keep(small(i), i)
		keep(viaInlined(i), i)
		keep(deep(i%200, i&1 == 0), i)
		keep(new(wrapper).grain(), i)
		keep(shape(sack{}).weigh(i), i)
		keep(strings.Repeat("grain", i+1), i)
		keep(grow(i), i)
		keep(table(i), i)
		keep(make(chan [4]int, i%7), i)
		keep(fmt.Sprintf("%d grains", i), i)
		keep(reflect.New(reflect.TypeOf(i)).Interface(), i)
		keep(generic(i), i)
		keep(func() *[96]byte { return new([96]byte) }(), i)
	}
	for i := 0; i < 20; i++ {
		keep(make([]byte, 100000+i*10000), i)
		keep(make([]*int, 50000), i)
	}
	var wg sync.WaitGroup
	for i := 0; i < 50; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			inGoroutine(i)
		}(i)
	}
	wg.Wait()
	return "filled"
}

var keeping sync.Mutex

// keep keeps two of three objects alive.
func keep(v interface{}, i int) {
	keeping.Lock()
	if i%3 != 0 {
		kept = append(kept, v)
	}
	keeping.Unlock()
}

type grain struct {
	next *grain
	_    [3]int
}

//go:noinline
func small(int) *grain { return new(grain) }

// viaInlined allocates in a function that is inlined into others.
//
//go:noinline
func viaInlined(n int) *[5]int { return outer(n) }

func outer(n int) *[5]int { return middle(n + 1) }

func middle(n int) *[5]int { return inner(n + 1) }

func inner(n int) *[5]int { return &[5]int{n} }

// deep allocates at the end of a recursion that is deeper than the recorded
// stacks, with one more call or without: so a stack ends at each of the calls.
//
//go:noinline
func deep(n int, more bool) *[7]int {
	switch {
	case n > 0:
		return step(n, more)
	case more:
		return deepest()
	}
	return new([7]int)
}

// step is inlined into deep.
func step(n int, more bool) *[7]int { return deep(n-1, more) }

//go:noinline
func deepest() *[7]int { return new([7]int) }

type shape interface{ weigh(int) *[9]int }

type sack struct{ wrapper }

type wrapper struct{ n int }

// weigh is called by a wrapper that the compiler makes for sack.
func (w wrapper) weigh(int) *[9]int { return new([9]int) }

//go:noinline
func (w *wrapper) grain() *[11]int { return new([11]int) }

//go:noinline
func grow(n int) []int {
	var s []int
	for i := 0; i < n%50; i++ {
		s = append(s, i)
	}
	return s
}

//go:noinline
func table(n int) map[int]string {
	m := make(map[int]string)
	for i := 0; i < n%40; i++ {
		m[i] = "grain"
	}
	return m
}

//go:noinline
func inGoroutine(i int) {
	keep(new([13]int), i)
	func() {
		defer func() { keep(recover(), i) }()
		var m map[int]int
		m[i]++
	}()
}

// cycles makes the collector run because the heap has grown.
func cycles(args []string) string {
	n, _ := strconv.Atoi(args[0])
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	debug.SetGCPercent(20)
	for now = before; now.NumGC < before.NumGC+uint32(n); runtime.ReadMemStats(&now) {
		for i := 0; i < 200; i++ {
			sink = make([]byte, 10000)
		}
		time.Sleep(time.Millisecond)
	}
	debug.SetGCPercent(-1)
	return fmt.Sprint("cycles ", now.NumGC-before.NumGC)
}

var sink []byte

func setRate(args []string) string {
	runtime.MemProfileRate, _ = strconv.Atoi(args[0])
	return "rate"
}

func enable(args []string) string {
	block, _ := strconv.Atoi(args[0])
	mutex, _ := strconv.Atoi(args[1])
	runtime.SetBlockProfileRate(block)
	runtime.SetMutexProfileFraction(mutex)
	return "enabled"
}

// contend waits for locks and channels on several stacks.
func contend([]string) string {
	var mu sync.Mutex
	var rw sync.RWMutex
	var wg sync.WaitGroup
	ch, never := make(chan int), make(chan int)
	for i := 0; i < 4; i++ {
		wg.Add(3)
		go func() {
			defer wg.Done()
			for n := 0; n < 50; n++ {
				lockInlined(&mu)
			}
		}()
		go func() {
			defer wg.Done()
			for n := 0; n < 50; n++ {
				rw.Lock()
				time.Sleep(10 * time.Microsecond)
				rw.Unlock()
			}
		}()
		go func(sends bool) {
			defer wg.Done()
			for n := 0; n < 50; n++ {
				if sends {
					ch <- n
					continue
				}
				select {
				case <-ch:
				case <-never:
				}
			}
		}(i&1 == 0)
	}
	wg.Wait()
	return "contended"
}

// lockInlined is inlined, and so are the methods it calls.
func lockInlined(mu *sync.Mutex) {
	mu.Lock()
	pause()
	mu.Unlock()
}

//go:noinline
func pause() { time.Sleep(20 * time.Microsecond) }

// A pair is two objects of different sizes that are allocated and freed together.
type pair struct {
	other *[20]int
	_     [40]int
}

func storm([]string) string {
	for i := 0; i < 2; i++ {
		go func() {
			var ring [64]*pair
			for n := 0; ; n++ {
				ring[n%len(ring)] = newPair()
			}
		}()
	}
	go func() {
		for {
			runtime.GC()
		}
	}()
	return "storming"
}

//go:noinline
func newPair() *pair {
	p := new(pair)
	p.other = partner()
	return p
}

//go:noinline
func partner() *[20]int { return new([20]int) }

// crowd allocates on stacks that differ in their branches.
func crowd(args []string) string {
	n, _ := strconv.Atoi(args[0])
	for i := 0; i < n; i++ {
		keep(left(uint(i), 16), i)
	}
	return "crowded"
}

//go:noinline
func left(bits, n uint) *[3]int {
	switch {
	case n == 0:
		return new([3]int)
	case bits&1 == 0:
		return left(bits>>1, n-1)
	}
	return right(bits>>1, n-1)
}

//go:noinline
func right(bits, n uint) *[3]int {
	switch {
	case n == 0:
		return new([3]int)
	case bits&1 == 0:
		return left(bits>>1, n-1)
	}
	return right(bits>>1, n-1)
}
