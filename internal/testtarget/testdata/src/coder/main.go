// Coder has workers whose call chain spells a number that changes all the time.
// A stack put together from two moments does not spell a valid code word.
//
//	coder WORKERS [KINDS]
//
// KINDS is a list like chan,sleep,grow; worker i is of kind i modulo its length.
//
//	chan    parks on a channel until its partner sends
//	select  parks in a select of two channels
//	sched   yields with runtime.Gosched
//	sleep   sleeps for some microseconds
//	spin    computes for some microseconds, never parks
//	mixed   does one of these: that with the number of the word modulo five
//	grow    as mixed, with a stack that grows and shrinks between two words
//
// The chain, root first: main.(*worker).run (or runMixed, for workers of the
// kinds mixed and grow), main.(*worker).speak, twelve calls
// of bit0 or bit1 (the value, highest bit first), twelve calls of chk0 or chk1
// (each bit's complement, in the same order), and main.parkX for the kind of
// park. Consecutive words of a worker differ in the lowest bit and thereby in
// the leafmost check. All bit and chk functions have the same frame, so that
// the frames of every word of a worker lie at the same addresses.
//
// It adds the command
//
//	ops      `ops <words spoken> <monotonic nanoseconds>`
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const wordBits = 12

// A step is one call of the chain; n is its place in the worker's plan.
type step func(w *worker, n int)

// A worker speaks one word after the other.
type worker struct {
	words uint64 // spoken so far
	plan  [2*wordBits + 1]step
	ask   chan struct{}
	wake  chan struct{}
	never chan struct{}
	park  step // nil: by the word
	mixed bool
	grow  bool
	spun  uint64
}

var parks = []struct {
	kind string
	park step
}{
	{"chan", parkChan}, {"select", parkSelect}, {"sched", parkSched}, {"sleep", parkSleep}, {"spin", parkSpin},
}

func main() {
	count, kinds := 8, []string{"chan", "select", "sched", "sleep", "spin", "mixed", "grow"}
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil || n < 1 {
			fail("%q is not a count of workers", os.Args[1])
		}
		count = n
	}
	if len(os.Args) > 2 {
		kinds = strings.Split(os.Args[2], ",")
	}
	crew := make([]*worker, count)
	grow := false
	for i := range crew {
		crew[i] = newWorker(kinds[i%len(kinds)])
		grow = grow || crew[i].grow
	}
	for _, w := range crew {
		go w.partner()
		if w.mixed {
			go w.runMixed()
		} else {
			go w.run()
		}
	}
	if grow {
		go collector()
	}
	for _, w := range crew {
		for atomic.LoadUint64(&w.words) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	serve(false, map[string]command{"ops": func([]string) string {
		var total uint64
		for _, w := range crew {
			total += atomic.LoadUint64(&w.words)
		}
		return fmt.Sprintf("ops %d %d", total, monotonic())
	}})
}

func fail(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, "coder: "+format+"\n", args...)
	os.Exit(2)
}

func newWorker(kind string) *worker {
	w := &worker{
		ask:   make(chan struct{}, 1),
		wake:  make(chan struct{}),
		never: make(chan struct{}),
		mixed: kind == "mixed" || kind == "grow",
		grow:  kind == "grow",
	}
	if w.mixed {
		return w
	}
	for _, p := range parks {
		if p.kind == kind {
			w.park = p.park
			return w
		}
	}
	fail("no worker is of the kind %q", kind)
	return nil
}

// collector shrinks the stacks that workers have grown.
func collector() {
	for range time.Tick(5 * time.Millisecond) {
		runtime.GC()
	}
}

// partner wakes the worker whenever it asks to be.
func (w *worker) partner() {
	for range w.ask {
		w.wake <- struct{}{}
	}
}

// run speaks words that all have the same park.
func (w *worker) run() {
	for count := uint32(0); ; count++ {
		w.speak(word(count))
	}
}

// runMixed speaks words that choose their park.
func (w *worker) runMixed() {
	for count := uint32(0); ; count++ {
		if w.grow && count%8 == 0 {
			stretch(count / 8 % 400)
		}
		w.speak(word(count))
	}
}

// word returns the word that follows word(count-1). An odd factor visits every
// value once and changes about half of the bits from one to the next, always
// the lowest.
func word(count uint32) uint32 { return count * 2531 % (1 << wordBits) }

// speak plans the chain of calls and starts it.
//
//go:noinline
func (w *worker) speak(value uint32) {
	bits, checks := [2]step{bit0, bit1}, [2]step{chk0, chk1}
	for i := 0; i < wordBits; i++ {
		bit := value >> uint(wordBits-1-i) & 1
		w.plan[i] = bits[bit]
		w.plan[wordBits+i] = checks[1-bit]
	}
	w.plan[2*wordBits] = w.park
	if w.mixed {
		w.plan[2*wordBits] = parks[value%uint32(len(parks))].park
	}
	w.plan[0](w, 0)
	atomic.AddUint64(&w.words, 1)
}

//go:noinline
func bit0(w *worker, n int) { w.plan[n+1](w, n+1) }

//go:noinline
func bit1(w *worker, n int) { w.plan[n+1](w, n+1) }

//go:noinline
func chk0(w *worker, n int) { w.plan[n+1](w, n+1) }

//go:noinline
func chk1(w *worker, n int) { w.plan[n+1](w, n+1) }

//go:noinline
func parkChan(w *worker, n int) {
	w.ask <- struct{}{}
	<-w.wake
}

//go:noinline
func parkSelect(w *worker, n int) {
	w.ask <- struct{}{}
	select {
	case <-w.wake:
	case <-w.never:
	}
}

//go:noinline
func parkSched(w *worker, n int) { runtime.Gosched() }

//go:noinline
func parkSleep(w *worker, n int) { time.Sleep(20 * time.Microsecond) }

//go:noinline
func parkSpin(w *worker, n int) {
	x := w.spun
	for i := 0; i < 20000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	w.spun = x
}

// stretch makes the stack grow by about half a kilobyte for each frame.
//
//go:noinline
func stretch(frames uint32) byte {
	var pad [512]byte
	pad[frames%512] = byte(frames)
	if frames == 0 {
		return pad[0]
	}
	return stretch(frames-1) + pad[frames%512]
}
