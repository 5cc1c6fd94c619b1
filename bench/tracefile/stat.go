package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/internal/tracefile"
	"github.com/loupe-go/loupe/trace"
)

// statWays are ways to read a whole trace file. Each returns how many events it has seen.
var statWays = []struct {
	name string
	read func(file string) (events uint64, err error)
}{
	{"loupe tracefile stat", func(file string) (uint64, error) { return stat(file, tracefile.ByStart) }},
	{"loupe tracefile stat --by none", func(file string) (uint64, error) { return stat(file, tracefile.ByNone) }},
	{"loupe tracefile validate", validate},
	{"trace.Reader alone", readEvents},
	{"golang.org/x/exp/trace alone", readToolchain},
}

func stat(file string, by tracefile.By) (uint64, error) {
	in, err := tracefile.Open(context.Background(), file, nil)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	s, err := tracefile.Stat(context.Background(), in, tracefile.StatOptions{By: by, Order: tracefile.OrderRunning, Top: 10})
	if err != nil {
		return 0, err
	}
	return s.Totals.Events, s.Err
}

func validate(file string) (uint64, error) {
	in, err := tracefile.Open(context.Background(), file, nil)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	r, err := tracefile.Validate(context.Background(), in, trace.ValidateOptions{})
	if err != nil {
		return 0, err
	}
	return uint64(r.Events), nil
}

func readEvents(file string) (n uint64, err error) {
	in, err := tracefile.Open(context.Background(), file, nil)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	events, err := in.Events(context.Background())
	if err != nil {
		return 0, err
	}
	for batch, err := range events.Batches() {
		if err != nil {
			return n, err
		}
		n += uint64(len(batch))
	}
	return n, nil
}

func readToolchain(file string) (n uint64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := xtrace.NewReader(f)
	if err != nil {
		return 0, err
	}
	for {
		if _, err := r.ReadEvent(); err != nil {
			if err == io.EOF {
				err = nil
			}
			return n, err
		}
		n++
	}
}

// compareStat measures all ways with a file and prints a table.
func compareStat(file string, rounds int) error {
	debug.SetGCPercent(400) // as the command sets it
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %.1f MB\n\n| way | MB/s | events | ns an event |\n|---|---|---|---|\n", filepath.Base(file), float64(info.Size())/1e6)
	for _, way := range statWays {
		var all []time.Duration
		var events uint64
		for range rounds + 1 { // the first one warms up
			runtime.GC()
			begin := processorTime()
			if events, err = way.read(file); err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			all = append(all, processorTime()-begin)
		}
		took := program.Median(all[1:])
		fmt.Printf("| %s | %.1f | %d | %.1f |\n", way.name, float64(info.Size())/1e6/took.Seconds(), events, float64(took.Nanoseconds())/float64(max(events, 1)))
	}
	fmt.Println()
	return nil
}
