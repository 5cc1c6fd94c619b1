// Flight records its own execution trace as a whole, and at the same time by a flight recorder into several files.
//
//	flight DIR
//
// writes DIR/whole.trace and DIR/part0.trace, part1.trace and part2.trace. Each part begins when the recorder started and
// contains the parts before it. Then it records DIR/later0.trace and DIR/later1.trace with a pause between them, in which
// goroutines end.
//
// The amount of work is fixed, and the recorder keeps more time than the work takes on a busy machine.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/trace"
	"sync"
	"time"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "flight:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: time.Hour, MaxBytes: 1 << 30})
	if err := recorder.Start(); err != nil {
		return err
	}
	whole, err := os.Create(filepath.Join(dir, "whole.trace"))
	if err != nil {
		return err
	}
	if err := trace.Start(whole); err != nil {
		return err
	}
	for i := 0; i < 3; i++ {
		work(200)
		part, err := os.Create(filepath.Join(dir, fmt.Sprintf("part%d.trace", i)))
		if err != nil {
			return err
		}
		if _, err := recorder.WriteTo(part); err != nil {
			return err
		}
		if err := part.Close(); err != nil {
			return err
		}
	}
	trace.Stop()
	recorder.Stop()
	if err := whole.Close(); err != nil {
		return err
	}
	return pause(dir)
}

// pause records two traces; five goroutines end in between.
func pause(dir string) error {
	end := make(chan bool)
	for i := 0; i < 5; i++ {
		go func() { <-end }()
	}
	for i := 0; i < 2; i++ {
		later, err := os.Create(filepath.Join(dir, fmt.Sprintf("later%d.trace", i)))
		if err != nil {
			return err
		}
		if err := trace.Start(later); err != nil {
			return err
		}
		work(8)
		trace.Stop()
		if err := later.Close(); err != nil {
			return err
		}
		if i == 0 {
			close(end)
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// work keeps goroutines busy for some rounds of about three milliseconds.
func work(rounds int) {
	for ; rounds > 0; rounds-- {
		var wg sync.WaitGroup
		ch := make(chan int)
		for i := 0; i < 4; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range ch {
					time.Sleep(50 * time.Microsecond)
				}
			}()
		}
		for i := 0; i < 20; i++ {
			ch <- i
		}
		close(ch)
		wg.Wait()
		time.Sleep(time.Millisecond)
	}
}
