// Mixer does many kinds of work at the same time, each with a known result, so that harm done to any thread shows.
//
//	mixer WORKERS
//
// It runs that many workers of each kind: sums over channels, under mutexes, of floating-point numbers, of copied memory;
// system calls that wait for time or data; threads that come and go. The collector runs all the time, and SIGPROF comes
// 1000 times a second. It adds the command
//
//	sum      `sum ok <pieces of work>...`, a number for each kind, or `sum bad <wrong results> <the first one>`
package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var (
	done  [10]int64 // by kind
	wrong int64
	mu    sync.Mutex
	first string // the first wrong result
)

func main() {
	workers := 2
	if len(os.Args) > 1 {
		n, err := strconv.Atoi(os.Args[1])
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "mixer: %q is not a count of workers\n", os.Args[1])
			os.Exit(2)
		}
		workers = n
	}
	// The setting alone starts the timer; nobody reads the profile.
	runtime.SetCPUProfileRate(1000)
	for i := 0; i < workers; i++ {
		for kind, work := range [...]func(){channels, mutexes, floats, copies, sleeps, futexes, reads, deadlines, threads} {
			go forever(work, &done[kind])
		}
	}
	go forever(func() { runtime.GC(); time.Sleep(5 * time.Millisecond) }, &done[len(done)-1])
	serve(false, map[string]command{"sum": sum})
}

func sum([]string) string {
	if n := atomic.LoadInt64(&wrong); n > 0 {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("sum bad %d %s", n, first)
	}
	answer := "sum ok"
	for i := range done {
		answer += fmt.Sprintf(" %d", atomic.LoadInt64(&done[i]))
	}
	return answer
}

func forever(work func(), done *int64) {
	for {
		work()
		atomic.AddInt64(done, 1)
	}
}

func fail(format string, args ...interface{}) {
	atomic.AddInt64(&wrong, 1)
	mu.Lock()
	defer mu.Unlock()
	if first == "" {
		first = fmt.Sprintf(format, args...)
	}
}

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

const wait = 3 * time.Millisecond

// waited checks a wait that must have ended by its time-out, or by a signal of the runtime's own.
func waited(what string, begin time.Time, err, want error) {
	switch {
	case err == syscall.EINTR:
	case err != want:
		fail("%s: %v", what, err)
	case time.Since(begin) < wait:
		fail("%s: ended after %v", what, time.Since(begin))
	}
}

func sleeps() {
	begin := time.Now()
	ts := syscall.NsecToTimespec(int64(wait))
	waited("sleeps", begin, syscall.Nanosleep(&ts, nil), nil)
}

func futexes() {
	var word uint32
	begin := time.Now()
	ts := syscall.NsecToTimespec(int64(wait))
	const waitPrivate = 128
	_, _, errno := syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), waitPrivate, 0,
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	waited("futexes", begin, errno, syscall.ETIMEDOUT)
}

// reads has a thread wait in read for what another one writes.
func reads() {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		fail("reads: %v", err)
		return
	}
	go func() {
		time.Sleep(wait)
		syscall.Write(p[1], []byte("word"))
		syscall.Close(p[1])
	}()
	var b [8]byte
	n, err := syscall.Read(p[0], b[:])
	syscall.Close(p[0])
	if err != syscall.EINTR && (err != nil || string(b[:n]) != "word") {
		fail("reads: %q, %v", b[:n], err)
	}
}

// deadlines waits in the runtime's network poller.
func deadlines() {
	r, w, err := os.Pipe()
	if err != nil {
		fail("deadlines: %v", err)
		return
	}
	defer r.Close()
	defer w.Close()
	begin := time.Now()
	r.SetReadDeadline(begin.Add(wait))
	var b [1]byte
	if _, err := r.Read(b[:]); !os.IsTimeout(err) || time.Since(begin) < wait {
		fail("deadlines: %v after %v", err, time.Since(begin))
	}
}

// threads ends a thread: a goroutine that keeps its own until it returns takes it along.
func threads() {
	ended := make(chan bool)
	go func() {
		runtime.LockOSThread()
		time.Sleep(wait / 3)
		ended <- true
	}()
	<-ended
}
