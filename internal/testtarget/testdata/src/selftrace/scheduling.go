package main

import (
	"runtime"
	"sync"
	"time"
)

func init() {
	phases = append(phases,
		phase{"Gosched", 3, gosched},
		phase{"preemption", 6, preemption},
		phase{"LockOSThread", 4, locked},
		phase{"GOMAXPROCS", 2, maxprocs},
		phase{"creation tree", 40, creationTree},
		phase{"short lives", 400, shortLives},
		phase{"Goexit", 5, goexits},
		phase{"panic", 5, panics},
		phase{"stack growth", 4, stackGrowth},
	)
}

func gosched() {
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		go func() {
			for j := 0; j < 50; j++ {
				runtime.Gosched()
			}
			done <- true
		}()
	}
	for i := 0; i < 3; i++ {
		<-done
	}
}

// preemption has more goroutines compute than there are processors, for longer
// than a time slice.
func preemption() {
	done := make(chan bool)
	for i := 0; i < 6; i++ {
		go func() {
			spin(25 * time.Millisecond)
			done <- true
		}()
	}
	for i := 0; i < 6; i++ {
		<-done
	}
}

// locked passes numbers between goroutines that are wired to threads. Half of
// them end without unlocking, which ends the thread.
func locked() {
	var stages [5]chan int
	for i := range stages {
		stages[i] = make(chan int)
	}
	for i := 0; i < 4; i++ {
		go lockedStage(stages[i], stages[i+1], i%2 == 0)
	}
	for i := 0; i < 20; i++ {
		stages[0] <- i
		<-stages[4]
	}
	close(stages[0])
	<-stages[4]
}

func lockedStage(in <-chan int, out chan<- int, unlock bool) {
	runtime.LockOSThread()
	for v := range in {
		out <- v
	}
	if unlock {
		runtime.UnlockOSThread()
	}
	close(out)
}

// maxprocs changes the number of Ps under goroutines that run.
func maxprocs() {
	before := runtime.GOMAXPROCS(0)
	stop, done := make(chan bool), make(chan bool)
	for i := 0; i < 2; i++ {
		go func() {
			for {
				select {
				case <-stop:
					done <- true
					return
				default:
					spin(50 * time.Microsecond)
					runtime.Gosched()
				}
			}
		}()
	}
	for i := 0; i < 3; i++ {
		for _, n := range [...]int{4, 1, before} {
			runtime.GOMAXPROCS(n)
			spin(100 * time.Microsecond)
		}
	}
	close(stop)
	<-done
	<-done
}

// creationTree has goroutines make goroutines: 1 + 3 + 9 + 27.
func creationTree() {
	var all sync.WaitGroup
	all.Add(40)
	go branch(3, &all)
	all.Wait()
}

func branch(height int, all *sync.WaitGroup) {
	if height > 0 {
		for i := 0; i < 3; i++ {
			go branch(height-1, all)
		}
	}
	all.Done()
}

// shortLives makes goroutines that do next to nothing.
func shortLives() {
	for i := 0; i < 20; i++ {
		var all sync.WaitGroup
		all.Add(20)
		for j := 0; j < 20; j++ {
			go all.Done()
		}
		all.Wait()
	}
}

// goexits ends goroutines from the depth of their stacks.
func goexits() {
	var all sync.WaitGroup
	all.Add(5)
	for i := 0; i < 5; i++ {
		go func(depth int) {
			defer all.Done()
			dive(depth, runtime.Goexit)
		}(i * 3)
	}
	all.Wait()
}

// panics has goroutines panic, recover and go on.
func panics() {
	var all sync.WaitGroup
	all.Add(5)
	for i := 0; i < 5; i++ {
		go func(depth int) {
			defer all.Done()
			for j := 0; j < 5; j++ {
				func() {
					defer func() { _ = recover() }()
					dive(depth, func() { panic(depth) })
				}()
				runtime.Gosched()
			}
		}(i * 3)
	}
	all.Wait()
}

// stackGrowth has goroutines give way at the bottom of deep stacks, which grew
// on the way.
func stackGrowth() {
	var all sync.WaitGroup
	all.Add(4)
	for i := 0; i < 4; i++ {
		go func(depth int) {
			dive(depth, runtime.Gosched)
			all.Done()
		}(100 << uint(i))
	}
	all.Wait()
}

// dive calls a function with so many frames on the stack.
//
//go:noinline
func dive(depth int, f func()) int {
	var pad [16]int
	pad[depth%16] = depth
	if depth == 0 {
		f()
		return 0
	}
	return dive(depth-1, f) + pad[depth%16]
}
