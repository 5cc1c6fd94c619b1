package loupe_test

import (
	"errors"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// openFiles returns the number of open files of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestCPUEnds ends the process, or replaces its program, while it is sampled.
func TestCPUEnds(t *testing.T) {
	exec := func(p *testtarget.Process) { p.Command("exec") }
	for _, test := range []struct {
		name   string
		end    func(*testtarget.Process)
		want   error
		noEBPF bool
	}{
		{"killed", (*testtarget.Process).Kill, loupe.ErrExited, false},
		{"exec", exec, loupe.ErrExec, false},
		{"killed without eBPF", (*testtarget.Process).Kill, loupe.ErrExited, true},
		{"exec without eBPF", exec, loupe.ErrExec, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := burn(t, testtarget.Spec{}, "shares", "gc")
			before := openFiles(t)
			p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			type result struct {
				prof *loupe.CPUProfile
				err  error
			}
			done := make(chan result)
			go func() {
				prof, err := p.CPUProfile(t.Context(), loupe.CPUOptions{Rate: 500, NoEBPF: test.noEBPF})
				done <- result{prof, err}
			}()
			for first := cpuTime(target.PID()); cpuTime(target.PID())-first < 2*time.Second; {
				time.Sleep(10 * time.Millisecond)
			}
			test.end(target)
			r := <-done
			if r.err != nil || !errors.Is(r.prof.Ended, test.want) || r.prof.Samples == 0 || len(r.prof.Missing()) == 0 {
				t.Fatalf("%+v, %v", r.prof, r.err)
			}
			for _, s := range r.prof.Sample {
				if names := frames(s); names[0] == "main.again" || strings.HasSuffix(names[len(names)-1], "rt0_go") {
					t.Errorf("a sample of the new program: %q", names)
				}
			}
			p.Close() // until then it has the files of shared libraries whose code was sampled
			if n := openFiles(t); n > before {
				t.Errorf("%d open files, %d before", n, before)
			}
		})
	}
}

// TestCPUThreads samples a process with many threads, which requires no more files than one with few.
func TestCPUThreads(t *testing.T) {
	target := burn(t, testtarget.Spec{}, "shares")
	target.Command("threads 3000")
	before := openFiles(t)
	prof := cpuProfile(t, target.PID(), loupe.CPUOptions{Rate: 250})
	if math.Abs(prof.Sampled()-1) > 0.05 || prof.Lost > 0 { // most of the threads run too shortly to be seen
		t.Errorf("the samples stand for %.2f %% of the processor time, %d lost", 100*prof.Sampled(), prof.Lost)
	}
	if n := openFiles(t); n > before {
		t.Errorf("%d open files, %d before", n, before)
	}
	// The other samples are in the scheduler, a quarter of all on a busy machine with slow system calls.
	if s := sharesBy(prof.Profile, false, frames); s.of("main.shares") < 0.5 {
		t.Errorf("%v", s)
	}
}

// TestCPURate takes samples at the maximum rate, with the label of the goroutine.
func TestCPURate(t *testing.T) {
	target := burn(t, testtarget.Spec{}, "shares", "labels")
	prof := cpuProfile(t, target.PID(), loupe.CPUOptions{Rate: loupe.MaxCPURate, Goroutines: true})
	checkCPU(t, prof)
	if prof.Samples < 1000 {
		t.Errorf("%d samples", prof.Samples)
	}
	starts := sharesBy(prof.Profile, false, func(s *profile.Sample) []string {
		id, err := strconv.Atoi(strings.Join(s.Label["goroutine"], ""))
		if names := frames(s); names[len(names)-1] == "main.shares" && (err != nil || id < 2) {
			t.Errorf("goroutine %q of %q", s.Label["goroutine"], names)
		}
		return s.Label["start"]
	})
	if starts.of("main.shares") < 0.02 || starts.of("main.forever") < 0.02 { // what the scheduler gave them
		t.Errorf("start functions: %v", starts.by)
	}
	p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.CPUProfile(t.Context(), loupe.CPUOptions{Rate: loupe.MaxCPURate + 1}); err == nil {
		t.Error("a rate above the maximum")
	}
}

// perfLine is a line of perf report: a share and a symbol.
var perfLine = regexp.MustCompile(`^\s*([0-9.]+)%\s+\[(.)\]\s+(\S+)`)

// besidePerf profiles a target while perf record does so with some options, and returns the file that perf has written.
func besidePerf(t *testing.T, target *testtarget.Process, options ...string) (ours *loupe.CPUProfile, file string) {
	t.Helper()
	testtarget.Needs(t, "perf", "linux-perf")
	file = t.TempDir() + "/perf.data"
	recording := testcmd.Within(t, 0, "perf", append([]string{"record", "-q", "-e", "cpu-clock:u", "-F", "99", "-o", file}, options...)...)
	if err := recording.Start(); err != nil {
		t.Fatal(err)
	}
	awaitPerf(t, file)
	ours = cpuProfile(t, target.PID(), loupe.CPUOptions{})
	recording.Process.Signal(os.Interrupt)
	recording.Wait()
	return ours, file
}

// TestCPUPerf compares a CPU profile with that of perf record of the same seconds.
func TestCPUPerf(t *testing.T) {
	testtarget.Whole(t, "perf")
	target := burn(t, testtarget.Spec{}, "shares", "gc")
	ours, file := besidePerf(t, target, "-p", strconv.Itoa(target.PID()))
	out, err := testcmd.Within(t, 0, "perf", "report", "-i", file, "--stdio", "--no-children", "-g", "none", "-n", "-F", "overhead,sym").Output()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := testcmd.Within(t, 0, "perf", "script", "-i", file, "-F", "pid").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := shares{total: int64(strings.Count(string(samples), "\n")), by: map[string]int64{}}
	for line := range strings.Lines(string(out)) {
		if m := perfLine.FindStringSubmatch(line); m != nil {
			share, _ := strconv.ParseFloat(m[1], 64)
			theirs.by[strings.TrimSuffix(m[3], ".abi0")] += int64(math.Round(share / 100 * float64(theirs.total)))
		}
	}
	if len(theirs.by) == 0 {
		t.Fatalf("perf reports no functions: %s", out)
	}
	inUser := func(s *profile.Sample) []string { // the function with the machine code, as perf does not know inlined calls
		lines := s.Location[0].Line
		return []string{lines[len(lines)-1].Function.Name}
	}
	t.Logf("%d samples of perf", theirs.total)
	compareShares(t, "perf", maxZ, sharesBy(ours.Profile, false, inUser), theirs)
}
