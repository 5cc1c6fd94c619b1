package main

import (
	"context"
	"time"
)

func init() {
	phases = append(phases,
		phase{"time.Sleep", 5, sleep},
		phase{"timers", 2, timers},
		phase{"time.AfterFunc", 10, afterFunc},
		phase{"ticker", 0, ticker},
		phase{"context", 3, contexts},
	)
}

// sleep has goroutines sleep for nothing, for less and for more than a
// millisecond.
func sleep() {
	done := make(chan bool)
	for i := 0; i < 5; i++ {
		go func(d time.Duration) {
			for j := 0; j < 5; j++ {
				time.Sleep(d)
			}
			done <- true
		}(time.Duration(i) * 400 * time.Microsecond)
	}
	for i := 0; i < 5; i++ {
		<-done
	}
}

// timers waits for timers, stops some and resets others from elsewhere.
func timers() {
	for i := 0; i < 5; i++ {
		<-time.NewTimer(500 * time.Microsecond).C
	}
	late := time.NewTimer(time.Hour)
	done := make(chan bool)
	go func() {
		<-late.C
		done <- true
	}()
	go func() {
		time.Sleep(time.Millisecond)
		late.Reset(time.Nanosecond)
		done <- true
	}()
	<-done
	<-done
	for i := 0; i < 10; i++ {
		t := time.NewTimer(time.Hour)
		select {
		case <-t.C:
		default:
		}
		t.Stop()
	}
}

// afterFunc has timers make goroutines.
func afterFunc() {
	done := make(chan bool)
	for i := 0; i < 10; i++ {
		time.AfterFunc(time.Duration(i)*100*time.Microsecond, func() { done <- true })
	}
	for i := 0; i < 10; i++ {
		<-done
	}
}

func ticker() {
	t := time.NewTicker(300 * time.Microsecond)
	for i := 0; i < 15; i++ {
		<-t.C
	}
	t.Stop()
}

// contexts has goroutines wait for a cancellation and for a deadline.
func contexts() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		d := time.Hour
		if i == 0 {
			d = time.Millisecond
		}
		go func() {
			inner, stop := context.WithTimeout(ctx, d)
			<-inner.Done()
			stop()
			done <- true
		}()
	}
	<-done
	cancel()
	<-done
	<-done
}

// spin uses the processor until some time has passed. It calls functions, which
// gives releases before 1.14 places to preempt it.
func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
		work(100)
	}
}

//go:noinline
func work(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i * i
	}
	return sum
}
