// Command mill does a known amount of work on command.
//
// It adds the commands
//
//	pingpong N   N round trips of two goroutines over unbuffered channels, then `pingpong N <nanoseconds>`
//	spawn N      N goroutines that end at once, at most 100 at a time, then `spawn N <nanoseconds>`
//	threads N    N goroutines that each block a thread of their own; 0 lets them go and waits for their ends; then `threads N`
//	chans N      makes N channels, sends, receives, selects and closes on each once, then `chans N`
//	locks N      N waits for a mutex that is held, then `locks N`
//	sleep MS     sleeps, then `sleep MS <nanoseconds>`
//	burn MS      computes on one goroutine more than there are Ps, then `burn MS`
//	heap MB      holds so much memory from now on and collects twice, then `heap <MemStats.HeapAlloc> <collections>`
//	exec         replaces itself by itself, which is ready anew
//	execother    replaces itself by a program that is not Go and ends by itself
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	m := &mill{}
	serve(false, map[string]command{
		"pingpong": m.pingpong, "spawn": m.spawn, "threads": m.threads, "chans": m.chans, "locks": m.locks,
		"sleep": m.sleep, "burn": m.burn, "heap": m.heap, "exec": m.exec, "execother": m.execOther,
	})
}

type mill struct {
	release chan struct{}
	before  int // goroutines before the threads were blocked
	ballast []byte
}

func count(args []string) int {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "mill: %q is not a number\n", args[0])
		os.Exit(2)
	}
	return n
}

func (m *mill) pingpong(args []string) string {
	n, begin := count(args), time.Now()
	there, back := make(chan int), make(chan int)
	go func() {
		for v := range there {
			back <- v
		}
	}()
	for i := 0; i < n; i++ {
		there <- i
		<-back
	}
	close(there)
	return fmt.Sprintf("pingpong %d %d", n, time.Since(begin).Nanoseconds())
}

func (m *mill) spawn(args []string) string {
	n, begin := count(args), time.Now()
	const together = 100
	for done := 0; done < n; done += together {
		var wg sync.WaitGroup
		for i := done; i < n && i < done+together; i++ {
			wg.Add(1)
			go wg.Done()
		}
		wg.Wait()
	}
	return fmt.Sprintf("spawn %d %d", n, time.Since(begin).Nanoseconds())
}

// threads blocks threads in a system call that the runtime's network poller does not know.
func (m *mill) threads(args []string) string {
	n := count(args)
	if n == 0 {
		close(m.release)
		for runtime.NumGoroutine() > m.before {
			time.Sleep(time.Millisecond)
		}
		return "threads 0"
	}
	m.release, m.before = make(chan struct{}), runtime.NumGoroutine()
	var ready sync.WaitGroup
	for i := 0; i < n; i++ {
		ready.Add(1)
		go m.hold(&ready)
	}
	ready.Wait()
	return fmt.Sprintf("threads %d", n)
}

func (m *mill) hold(ready *sync.WaitGroup) {
	runtime.LockOSThread()
	ready.Done()
	for {
		select {
		case <-m.release:
			return
		default:
			ts := syscall.Timespec{Nsec: 20e6}
			syscall.Nanosleep(&ts, nil)
		}
	}
}

func (m *mill) chans(args []string) string {
	n := count(args)
	other := make(chan int)
	for i := 0; i < n; i++ {
		c := make(chan int, 7)
		c <- 1
		<-c
		c <- 2
		select {
		case <-c:
		case <-other:
		}
		close(c)
	}
	return fmt.Sprintf("chans %d", n)
}

func (m *mill) locks(args []string) string {
	n := count(args)
	for i := 0; i < n; i++ {
		var mu sync.Mutex
		mu.Lock()
		done := make(chan bool)
		go func() {
			mu.Lock()
			mu.Unlock()
			done <- true
		}()
		for waiters(&mu) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(2 * time.Millisecond) // from the count of the waiters to the wait
		mu.Unlock()
		<-done
	}
	return fmt.Sprintf("locks %d", n)
}

// waiters returns the number of goroutines that wait for a mutex or are about to: the upper bits of its first word.
func waiters(mu *sync.Mutex) int32 {
	const shift = 3 // sync.mutexWaiterShift
	return atomic.LoadInt32((*int32)(unsafe.Pointer(mu))) >> shift
}

func (m *mill) sleep(args []string) string {
	n, begin := count(args), time.Now()
	time.Sleep(time.Duration(n) * time.Millisecond)
	return fmt.Sprintf("sleep %d %d", n, time.Since(begin).Nanoseconds())
}

func (m *mill) burn(args []string) string {
	n := count(args)
	end := time.Now().Add(time.Duration(n) * time.Millisecond)
	var wg sync.WaitGroup
	for i := 0; i <= runtime.GOMAXPROCS(0); i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for time.Now().Before(end) {
				spin(1000)
			}
		}()
	}
	wg.Wait()
	return fmt.Sprintf("burn %d", n)
}

//go:noinline
func spin(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i
	}
	return sum
}

func (m *mill) heap(args []string) string {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m.ballast = make([]byte, count(args)<<20)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return fmt.Sprintf("heap %d %d", after.HeapAlloc, after.NumGC-before.NumGC)
}

func (m *mill) exec([]string) string {
	err := syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	return "error exec: " + err.Error()
}

func (m *mill) execOther([]string) string {
	path, err := exec.LookPath("true")
	if err == nil {
		err = syscall.Exec(path, []string{"true"}, nil)
	}
	return "error exec: " + err.Error()
}
