package ptrace

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testtarget"
)

func init() { helpers["profiled"] = profiled }

// nowhere is an interval that no word of a stack lies in.
var nowhere = Interval{3<<46 + 1, 3<<46 + 100}

// profiled computes in one function and is interrupted by SIGPROF as often as the kernel can.
func profiled([]string) {
	runtime.SetCPUProfileRate(10000)
	for range runtime.NumCPU() {
		go func() {
			for {
				sink.Add(int64(spinHere(1 << 20)))
			}
		}()
	}
	fmt.Printf("ready %d\n", os.Getpid())
	var b [1]byte
	os.Stdin.Read(b[:])
}

var sink atomic.Int64

//go:noinline
func spinHere(n int) (sum int) {
	for i := range n {
		sum += i * sum
	}
	return sum
}

// TestRestingInHandler finds where threads will come back to from a signal handler.
func TestRestingInHandler(t *testing.T) {
	target := testtarget.StartCmd(t, helper(t, "profiled")) // this very program: its code is where ours is
	if textRange(t, target.PID()).Start != textRange(t, os.Getpid()).Start {
		t.Fatal("the helper was loaded elsewhere")
	}
	entry := uint64(reflect.ValueOf(spinHere).Pointer())
	here := Interval{entry, entry + 64} // the function's code has about half of that
	direct, saved, masked := 0, 0, 0
	for begin := time.Now(); time.Since(begin) < time.Minute && (saved < 5 || direct < 5); {
		s := mustStop(t, target.PID(), Options{})
		rest, err := s.Resting([]Interval{nowhere, here}, false)
		for _, th := range s.threads {
			if th.mask != 0 {
				masked++
			}
		}
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rest {
			if r.PC < here.Lo || r.PC >= here.Hi {
				t.Fatalf("%+v is not in %+v", r, here)
			}
			if r.Saved {
				saved++
			} else {
				direct++
			}
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
	}
	t.Logf("found %d times in the function, %d times in a handler that returns to it, of %d threads that blocked signals",
		direct, saved, masked)
	if direct < 5 || saved < 5 {
		t.Errorf("found %d times in the function, %d times in a handler that returns to it", direct, saved)
	}
}

func TestIntervals(t *testing.T) {
	set := newIntervals([]Interval{{100, 110}, {50, 60}, {105, 120}, {60, 61}, {200, 200}, {300, 299}, {120, 121}})
	for addr := range uint64(400) {
		want := addr >= 50 && addr < 61 || addr >= 100 && addr < 121
		if set.has(addr) != want {
			t.Errorf("%d: %v, want %v", addr, !want, want)
		}
	}
	empty := newIntervals(nil)
	if empty.has(0) || empty.has(^uint64(0)) {
		t.Error("nothing has something")
	}
	if in := Inside(100, 5); in != (Interval{101, 105}) {
		t.Errorf("inside of 5 bytes at 100: %v", in)
	}
}

// BenchmarkStop measures how long processes with many threads stand still, and what the searches cost.
func BenchmarkStop(b *testing.B) {
	path := testtarget.Build(b, testtarget.Spec{Program: "mill"})
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("threads=%d", n), func(b *testing.B) {
			target := testtarget.Start(b, path)
			target.Command(fmt.Sprintf("threads %d", n))
			in := []Interval{nowhere}
			var stop, quick, all, still time.Duration
			var worst time.Duration
			b.ResetTimer()
			for range b.N {
				var s *Stopped
				err := Run(context.Background(), target.PID(), Options{}, func(stopped *Stopped) error {
					s = stopped
					stop += s.Took()
					for i, d := range []*time.Duration{&quick, &all} {
						begin := time.Now()
						if _, err := s.Resting(in, i == 1); err != nil {
							return err
						}
						*d += time.Since(begin)
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				took := time.Since(s.Since())
				still += took
				worst = max(worst, took)
			}
			per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
			b.ReportMetric(per(stop), "us-to-stop")
			b.ReportMetric(per(still-quick-all), "us-still")
			b.ReportMetric(per(quick), "us-rest-go")
			b.ReportMetric(per(all), "us-rest-cgo")
			b.ReportMetric(float64(worst.Microseconds()), "us-worst-all")
			target.Command("threads 0")
		})
	}
}

// BenchmarkCall measures a system call in another process, and a whole stop for one.
func BenchmarkCall(b *testing.B) {
	target := startMixer(b, testtarget.Spec{}, 1)
	b.Run("call", func(b *testing.B) {
		s := mustStop(b, target.PID(), Options{})
		defer s.Release()
		for range b.N {
			if _, err := s.Call(unix.SYS_GETPID); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stop one, map, unmap", func(b *testing.B) {
		near := window(b, target.PID())
		for range b.N {
			s := mustStop(b, target.PID(), Options{One: true})
			addr, err := mapProgram(s, near, 4096, 0)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Unmap(addr, 4096); err != nil {
				b.Fatal(err)
			}
			s.Release()
		}
	})
}
