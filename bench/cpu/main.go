// Command cpu measures what CPU profiles cost the profiled program: those of Loupe, of the runtime's own profiler, and of perf.
//
//	go run ./bench/cpu [-rounds 5] [-time 2s] [LOAD] ...
//
// LOAD is a load of the test program burner: shares, gc, kernel or spawn. Without loads, all are measured.
//
// The ways take turns. A number is the program's work per second of its processor time, as a part of that immediately before and
// after, without a profiler. The command requires root and perf.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/internal/testtarget"
)

var loads = []string{"shares", "gc", "kernel", "spawn"}

// way is a way to profile a target. It returns a function that ends the profile.
type way struct {
	name  string
	start func(t *target, dir string) (end func() error, err error)
}

// alone is without a profiler.
var alone = way{"alone", func(*target, string) (func() error, error) { return func() error { return nil }, nil }}

var ways = []way{
	{"Loupe 99 Hz", loupeWay(99)},
	{"Loupe 999 Hz", loupeWay(999)},
	{"runtime/pprof 100 Hz", ownWay},
	{"perf record 99 Hz", perfWay(99)},
	{"perf record 999 Hz", perfWay(999)},
}

func main() {
	rounds := flag.Int("rounds", 5, "measurements of each way")
	length := flag.Duration("time", 2*time.Second, "length of a measurement")
	flag.Parse()
	chosen := loads
	if flag.NArg() > 0 {
		chosen = flag.Args()
	}
	if err := run(chosen, *rounds, *length); err != nil {
		log.Fatal(err)
	}
}

func run(chosen []string, rounds int, length time.Duration) error {
	exe, err := testtarget.Executable(testtarget.Spec{Program: "burner"})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "loupe-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("work per second of processor time, relative to that without a profiler: median (lowest to highest)")
	for _, load := range chosen {
		t, err := startTarget(exe, load)
		if err != nil {
			return err
		}
		results := make([][]float64, len(ways))
		before, err := measure(t, alone, dir, length)
		if err != nil {
			return err
		}
		for range rounds {
			for i, w := range ways {
				rate, err := measure(t, w, dir, length)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", load, w.name, err)
				}
				after, err := measure(t, alone, dir, length)
				if err != nil {
					return err
				}
				results[i] = append(results[i], 2*rate/(before+after))
				before = after
			}
		}
		for i, w := range ways {
			r := results[i]
			slices.Sort(r)
			fmt.Printf("| %-8s | %-20s | %.3f (%.3f to %.3f) |\n", load, w.name, r[len(r)/2], r[0], r[len(r)-1])
		}
		if err := t.Stop(); err != nil {
			return err
		}
	}
	return nil
}

// measure returns the work of the target per second of its processor time.
func measure(t *target, w way, dir string, length time.Duration) (float64, error) {
	end, err := w.start(t, dir)
	if err != nil {
		return 0, err
	}
	units, used, err := t.progress()
	if err != nil {
		return 0, err
	}
	time.Sleep(length)
	units2, used2, err := t.progress()
	if err != nil {
		return 0, err
	}
	return float64(units2-units) / (used2 - used).Seconds(), end()
}

func loupeWay(rate int) func(*target, string) (func() error, error) {
	return func(t *target, _ string) (func() error, error) {
		p, err := loupe.OpenProcess(t.PID(), loupe.ProcessOptions{})
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			prof, err := p.CPUProfile(ctx, loupe.CPUOptions{Rate: rate})
			if err == nil && prof.Samples == 0 {
				err = fmt.Errorf("no samples")
			}
			done <- err
		}()
		time.Sleep(settle)
		return func() error {
			cancel()
			defer p.Close()
			return <-done
		}, nil
	}
}

// settle is the time until a profiler samples.
const settle = time.Second

func ownWay(t *target, dir string) (func() error, error) {
	if _, err := t.Ask("profile", filepath.Join(dir, "own")); err != nil {
		return nil, err
	}
	return func() error { _, err := t.Ask("stop"); return err }, nil
}

func perfWay(rate int) func(*target, string) (func() error, error) {
	return func(t *target, dir string) (func() error, error) {
		cmd := exec.Command("perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", strconv.Itoa(rate), "-p", strconv.Itoa(t.PID()), "-o", filepath.Join(dir, "perf.data"))
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		time.Sleep(settle)
		return func() error {
			cmd.Process.Signal(syscall.SIGTERM) // a background command of a shell ignores SIGINT
			cmd.Wait()                          // its status is that of the signal
			return nil
		}, nil
	}
}

// target is a running burner.
type target struct{ *program.Program }

func startTarget(exe, load string) (*target, error) {
	p, err := program.Start(exec.Command(exe, load))
	if err != nil {
		return nil, err
	}
	_, err = p.Line() // that it is ready
	return &target{p}, err
}

// progress returns the work that the target has done, and its processor time.
func (t *target) progress() (units uint64, used time.Duration, err error) {
	answer, err := t.Ask("count")
	if err != nil {
		return 0, 0, err
	}
	if units, err = strconv.ParseUint(answer, 10, 64); err != nil {
		return 0, 0, err
	}
	const schedClock = 2 // see clock_getcpuclockid(3)
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^t.PID()<<3|schedClock), &now); err != nil {
		return 0, 0, err
	}
	return units, time.Duration(now.Nano()), nil
}
