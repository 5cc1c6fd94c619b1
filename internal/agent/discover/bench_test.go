package discover

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// crowd starts processes that do nothing. They and the others of the machine are what a scan sees.
func crowd(b *testing.B, processes int) {
	for range processes {
		cmd := testcmd.Within(b, 0, "sleep", "3600")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScan measures a scan of about 500 processes that have not changed.
func BenchmarkScan(b *testing.B) {
	crowd(b, 500)
	for _, all := range []bool{false, true} {
		name := "new"
		if all {
			name = "all"
		}
		b.Run(name, func(b *testing.B) {
			w := New(Options{})
			w.handle = func(Event) {}
			for range newScans + 1 {
				w.scan(true)
			}
			b.ReportAllocs()
			begin := cpuTime()
			for b.Loop() {
				w.scan(all)
			}
			b.ReportMetric(float64((cpuTime()-begin).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(len(w.known)), "processes")
		})
	}
}

// BenchmarkIdle measures the processor time of a Watcher on a machine with about 500 processes, in parts of a million of a processor.
// What else the machine executes meanwhile is part of it.
func BenchmarkIdle(b *testing.B) {
	crowd(b, 500)
	for _, noConnector := range []bool{false, true} {
		w := New(Options{NoConnector: noConnector, NoTracepoints: noConnector})
		name := "connector"
		if noConnector {
			name = "polling"
		}
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error)
			go func() { done <- w.Run(ctx, func(Event) {}) }()
			time.Sleep((newScans + 1) * DefaultInterval)
			begin, start, before := cpuTime(), time.Now(), w.Stats()
			time.Sleep(10 * time.Second)
			b.ReportMetric(float64(cpuTime()-begin)/float64(time.Since(start))*1e6, "ppm-cpu")
			after := w.Stats()
			b.ReportMetric(float64(after.Programs-before.Programs)/time.Since(start).Seconds(), "programs/s")
			b.ReportMetric(float64(after.Analyses-before.Analyses)/time.Since(start).Seconds(), "analyses/s")
			cancel()
			<-done
		})
		if s := w.Stats(); s.Source == SourcePolling && !noConnector {
			b.Log(s.Why)
		}
	}
}

// BenchmarkExec measures the time from the exit of exec.Cmd.Start, at which the program is executed, to the event.
func BenchmarkExec(b *testing.B) {
	path := tiny(b)
	w := New(Options{})
	f := follow(b, w)
	if s := f.Stats(); s.Source != SourceConnector {
		b.Skip(s.Why)
	}
	var late time.Duration
	for b.Loop() {
		cmd := testcmd.Within(b, 0, path)
		in, _ := cmd.StdinPipe()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		f.wait(cmd.Process.Pid, Appeared)
		late += time.Since(start)
		in.Close()
		cmd.Wait()
	}
	b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late")
}

// BenchmarkExamine measures the examination of a Go program that is known.
func BenchmarkExamine(b *testing.B) {
	w := New(Options{})
	cmd := testcmd.Within(b, 0, tiny(b))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	id, err := goproc.Identify(cmd.Process.Pid)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if f := w.examine(id); f.outcome != isGo {
			b.Fatal(f)
		}
	}
}
