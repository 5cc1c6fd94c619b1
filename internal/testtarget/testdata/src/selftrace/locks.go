package main

import (
	"runtime"
	"sync"
	"time"
)

func init() {
	phases = append(phases,
		phase{"sync.Mutex", 4, mutex},
		phase{"sync.Mutex in starvation mode", 3, starvation},
		phase{"sync.RWMutex", 6, rwMutex},
		phase{"sync.WaitGroup", 8, waitGroup},
		phase{"sync.Cond", 4, cond},
		phase{"sync.Once", 3, once},
	)
}

// mutex has goroutines give way while they hold the lock that the others want.
func mutex() {
	var mu sync.Mutex
	done := make(chan bool)
	mu.Lock()
	for i := 0; i < 4; i++ {
		go contend(&mu, 50, runtime.Gosched, done)
	}
	time.Sleep(time.Millisecond)
	mu.Unlock()
	for i := 0; i < 4; i++ {
		<-done
	}
}

// contend takes a lock so many times and does something while it holds it.
func contend(mu *sync.Mutex, times int, holding func(), done chan<- bool) {
	for i := 0; i < times; i++ {
		mu.Lock()
		holding()
		mu.Unlock()
	}
	done <- true
}

// starvation makes goroutines wait for a lock for longer than a millisecond, after
// which the lock is handed from one to the next.
func starvation() {
	var mu sync.Mutex
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		go contend(&mu, 4, func() { spin(1500 * time.Microsecond) }, done)
	}
	for i := 0; i < 3; i++ {
		<-done
	}
}

// rwMutex has four readers and two writers. Readers wait for the first writer,
// which then waits for a reader.
func rwMutex() {
	var mu sync.RWMutex
	begun, done := make(chan bool), make(chan bool)
	mu.Lock()
	for i := 0; i < 4; i++ {
		go rwReader(&mu, begun, done)
	}
	rwWait(begun, 4)
	mu.Unlock()
	mu.RLock()
	for i := 0; i < 2; i++ {
		go rwWriter(&mu, begun, done)
	}
	rwWait(begun, 2)
	mu.RUnlock()
	for i := 0; i < 6; i++ {
		<-done
	}
}

// rwWait waits until n goroutines have begun, and probably wait for the lock.
func rwWait(begun <-chan bool, n int) {
	for i := 0; i < n; i++ {
		<-begun
	}
	time.Sleep(5 * time.Millisecond)
}

func rwReader(mu *sync.RWMutex, begun, done chan<- bool) {
	begun <- true
	for i := 0; i < 50; i++ {
		mu.RLock()
		runtime.Gosched()
		mu.RUnlock()
	}
	done <- true
}

func rwWriter(mu *sync.RWMutex, begun, done chan<- bool) {
	begun <- true
	for i := 0; i < 20; i++ {
		mu.Lock()
		runtime.Gosched()
		mu.Unlock()
		runtime.Gosched()
	}
	done <- true
}

// waitGroup has four goroutines wait for four others.
func waitGroup() {
	var work, waiters sync.WaitGroup
	gate := make(chan bool)
	work.Add(4)
	waiters.Add(4)
	for i := 0; i < 4; i++ {
		go func() {
			<-gate
			work.Done()
		}()
		go func() {
			work.Wait()
			waiters.Done()
		}()
	}
	time.Sleep(time.Millisecond)
	close(gate)
	waiters.Wait()
}

// cond wakes goroutines one by one, then all at once.
func cond() {
	var mu sync.Mutex
	c := sync.NewCond(&mu)
	waiting, turns := 0, 0
	done := make(chan bool)
	for i := 0; i < 4; i++ {
		go func() {
			mu.Lock()
			waiting++
			for turns == 0 {
				c.Wait()
			}
			mu.Unlock()
			done <- true
		}()
	}
	for all := false; !all; {
		time.Sleep(time.Millisecond)
		mu.Lock()
		all = waiting == 4
		mu.Unlock()
	}
	for i := 0; i < 4; i++ {
		c.Signal()
	}
	time.Sleep(time.Millisecond)
	mu.Lock()
	turns++
	mu.Unlock()
	c.Broadcast()
	for i := 0; i < 4; i++ {
		<-done
	}
}

// once has goroutines wait for the one that is inside.
func once() {
	var o sync.Once
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		go func() {
			o.Do(func() { time.Sleep(time.Millisecond) })
			done <- true
		}()
	}
	for i := 0; i < 3; i++ {
		<-done
	}
}
