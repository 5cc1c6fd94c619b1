package loupe_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
)

var cpuAll = flag.Bool("cpu.all", false, "compare CPU profiles on every release")

// Profiles that tests compare are of this processor time, or of this time on a busy machine.
const (
	cpuEnough = 1500 * time.Millisecond
	cpuWithin = 30 * time.Second
)

// cpuProfile takes a CPU profile of a process until it has used enough processor time.
func cpuProfile(t *testing.T, pid int, opt loupe.CPUOptions) *loupe.CPUProfile {
	t.Helper()
	p, err := loupe.OpenProcess(pid, loupe.ProcessOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	timeout, cancel := context.WithTimeout(t.Context(), cpuWithin)
	defer cancel()
	ctx := &sampledContext{Context: timeout, started: make(chan struct{})}
	go func() {
		<-ctx.started
		for first := cpuTime(pid); ctx.Err() == nil && cpuTime(pid)-first < cpuEnough; {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	prof, err := p.CPUProfile(ctx, opt)
	ctx.Err() // if it was not asked before
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := prof.Write(&file); err != nil {
		t.Fatal(err)
	}
	if prof.Profile, err = profile.Parse(&file); err != nil {
		t.Fatal(err)
	}
	return prof
}

// A sampledContext closes started when its error is first asked for. CPUProfile does so as soon as it samples.
type sampledContext struct {
	context.Context
	once    sync.Once
	started chan struct{}
}

func (c *sampledContext) Err() error {
	c.once.Do(func() { close(c.started) })
	return c.Context.Err()
}

// cpuTime returns utime + stime of a process, as the kernel reports them in /proc/PID/stat.
func cpuTime(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if err != nil || len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * (time.Second / 100)
}

// burn starts the program burner with some loads.
func burn(t *testing.T, s testtarget.Spec, loads ...string) *testtarget.Process {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("CPU profiles need root")
	}
	s.Program = "burner"
	target := testtarget.Start(t, testtarget.Build(t, s), loads...)
	time.Sleep(100 * time.Millisecond)
	return target
}

// bothProfiles returns the CPU profiles of the same seconds by Loupe and by the target itself.
func bothProfiles(t *testing.T, target *testtarget.Process, take func() *loupe.CPUProfile) (ours *loupe.CPUProfile, own *profile.Profile) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "own")
	target.Command("profile " + file)
	first := cpuTime(target.PID())
	ours = take()
	used := cpuTime(target.PID()) - first
	target.Command("stop")
	t.Logf("utime and stime while Loupe sampled, and before and after: %v", used)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if own, err = profile.Parse(f); err != nil {
		t.Fatal(err)
	}
	return ours, own
}

// shares are the samples of a profile by keys. A sample can have several.
type shares struct {
	total int64
	by    map[string]int64
}

// exactLeaves is the release since which the runtime's profiler shows the instruction that a signal interrupted. Before, it
// shows the one before, which may belong to another inlined call.
const exactLeaves = 21

// withoutFunction removes a function that is inlined everywhere from all samples.
func withoutFunction(p *profile.Profile, name string) {
	for _, l := range p.Location {
		l.Line = slices.DeleteFunc(l.Line, func(line profile.Line) bool { return line.Function.Name == name })
	}
}

// sharesBy counts the samples of a profile by the keys of each sample, except those that only one of the profilers takes.
func sharesBy(p *profile.Profile, biased bool, keys func(*profile.Sample) []string) shares {
	s := shares{by: map[string]int64{}}
	for _, sample := range p.Sample {
		if names := frames(sample); slices.Contains(names, "runtime.sysmon") || biased && slices.Contains(blocking, names[0]) {
			continue
		}
		s.total += sample.Value[0]
		list := keys(sample)
		slices.Sort(list)
		for _, k := range slices.Compact(list) {
			s.by[k] += sample.Value[0]
		}
	}
	return s
}

// The runtime has a timer for each thread, except for that of sysmon, since Go 1.18. Before, any thread receives the signal of a
// timer of the process, even a thread that sleeps in one of these functions.
const threadTimers = 18

var blocking = []string{"runtime.futex", "runtime.epollwait", "runtime.usleep", "runtime.sigreturn", "syscall.Syscall", "syscall.Syscall6", "syscall.RawSyscall"}

// vdsoStacks is the release since which the runtime's profiler shows the callers of the vDSO.
const vdsoStacks = 14

func (s shares) of(key string) float64 { return float64(s.by[key]) / float64(max(1, s.total)) }

// frames returns the names of the functions of a sample, the innermost first. It replaces functions that are not Go functions by
// runtime._ExternalCode, as the runtime's profiles have it.
func frames(s *profile.Sample) []string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			name := withoutTypeArguments(line.Function.Name)
			if isNative(line.Function) {
				name = "runtime._ExternalCode"
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{"runtime.goexit"} // which the runtime does not show, even if the stack has no other frame
	}
	for len(names) > 1 && (names[0] == "runtime._ExternalCode" || names[0] == "runtime.asyncPreempt") {
		// The runtime shows the call of C code only. If a signal that preempts the goroutine is pending together with that
		// of the profiler, the runtime shows the frame that the former injects.
		names = names[1:]
	}
	return names[:min(len(names), 64)] // as many as the runtime records
}

// isNative reports whether a function of a profile by Loupe is not a Go function: its file is an ELF file.
func isNative(f *profile.Function) bool {
	ext := filepath.Ext(f.Filename)
	return (strings.HasPrefix(f.Filename, "/") || f.Filename == "[vdso]") && ext != ".go" && ext != ".s"
}

// withoutTypeArguments shortens the name of a generic function as tracebacks do. The runtime's profiles have the shapes of the type
// arguments.
func withoutTypeArguments(name string) string {
	open, end := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if open < 0 || end < open {
		return name
	}
	return name[:open] + "[...]" + name[end+1:]
}

func flat(s *profile.Sample) []string { return frames(s)[:1] }

func labelsOf(s *profile.Sample) []string {
	text := ""
	for _, k := range slices.Sorted(maps.Keys(s.Label)) {
		text += fmt.Sprintf("%s=%q ", k, s.Label[k])
	}
	return []string{text}
}

// Differences below either bound are no errors: z is the two-sample statistic of a share, in standard deviations. A server's
// samples come in bursts, as its requests do, and are not independent. Nor are those of a timer of the process, see
// threadTimers: if they differ, both are measured again.
const (
	maxZ       = 5
	maxBurstyZ = 7
	maxDiff    = 0.03
)

// compareShares compares the shares of keys in two profiles. It logs them, and returns the largest statistic.
func compareShares(t *testing.T, what string, maxZ float64, a, b shares) (worst float64) {
	t.Helper()
	keys := map[string]bool{}
	for _, s := range []shares{a, b} {
		for k := range s.by {
			if s.of(k) >= 0.02 {
				keys[k] = true
			}
		}
	}
	list := slices.SortedFunc(maps.Keys(keys), func(x, y string) int { return cmp.Compare(b.of(y), b.of(x)) })
	for _, k := range list {
		p, q := a.of(k), b.of(k)
		both := float64(a.by[k]+b.by[k]) / float64(a.total+b.total)
		z := (p - q) / math.Sqrt(max(both*(1-both), 1e-4)*(1/float64(a.total)+1/float64(b.total)))
		worst = max(worst, math.Abs(z))
		line := fmt.Sprintf("%-8s %-60s Loupe %5.1f %%, own %5.1f %%, z %+.1f", what, k, 100*p, 100*q, z)
		if math.Abs(z) > maxZ && math.Abs(p-q) > maxDiff {
			t.Error(line)
		} else {
			t.Log(line)
		}
	}
	return worst
}

// checkCPU checks the sum of the samples against the kernel's account.
func checkCPU(t *testing.T, p *loupe.CPUProfile) {
	t.Helper()
	t.Logf("%d samples of %v, %d in the kernel; %d lost, %d unknown, %d cut, %d labels; sampled %.2f %%", p.Samples, p.CPU, p.Kernel, p.Lost, p.Unknown, p.Cut, p.Labels, 100*p.Sampled())
	// A period before and one behind, and what is not known because the account is not read at the same moment.
	if inexact := float64(2*p.Period+p.Unsure().Nanoseconds()) / float64(p.CPU); math.Abs(p.Sampled()-1) > 0.02+inexact {
		t.Errorf("the samples stand for %.2f %% of the processor time", 100*p.Sampled())
	}
	if p.Lost > 0 || float64(p.Unknown) > 3+0.01*float64(p.Samples) {
		t.Errorf("%d lost, %d unknown", p.Lost, p.Unknown)
	}
}

// TestCPUTruth compares CPU profiles with those that the target records of itself.
func TestCPUTruth(t *testing.T) { eachBurner(t, compareCPU) }

// eachBurner calls compare with the builds of a program that uses processor time, and with its loads: in two groups for each
// build, and, with all releases, each alone for one.
func eachBurner(t *testing.T, compare func(t *testing.T, spec testtarget.Spec, loads ...string)) {
	loads := [][]string{{"shares", "labels", "deep"}, {"kernel", "gc", "clock", "spawn"}}
	versions := testtarget.Versions()
	specs := slices.DeleteFunc(testtarget.Matrix(t, "burner"), func(s testtarget.Spec) bool {
		return !*cpuAll && s.Go != versions[0] && s.Go != versions[len(versions)-1]
	})
	if last := len(specs) - 1; !testtarget.Complete() { // Ends would leave cgo, which does not have all loads
		t.Logf("%s%v", testtarget.LeftOut, specs[last])
		specs = specs[:last]
	}
	for _, spec := range testtarget.Ends(t, specs) {
		t.Run(spec.String(), func(t *testing.T) {
			if spec.Cgo {
				compare(t, spec, "cgo", "gc")
				return
			}
			for _, l := range loads {
				if minorOf(t, cmp.Or(spec.Go, testtarget.Latest())) < vdsoStacks {
					l = slices.DeleteFunc(slices.Clone(l), func(load string) bool { return load == "clock" })
				}
				compare(t, spec, l...)
			}
		})
	}
	for _, load := range testtarget.Rare(t, slices.Concat(loads...)...) {
		t.Run(load, func(t *testing.T) { compare(t, testtarget.Spec{}, load) })
	}
}

// isBiased reports whether the profiles of a program by its own runtime are biased: see threadTimers.
func isBiased(t *testing.T, spec testtarget.Spec) bool {
	return minorOf(t, cmp.Or(spec.Go, testtarget.Latest())) < threadTimers
}

// measurements is how often two profiles may differ before it is an error, if the runtime's is biased.
const measurements = 3

func compareCPU(t *testing.T, spec testtarget.Spec, loads ...string) {
	target := burn(t, spec, loads...)
	defer target.Stop()
	biased := isBiased(t, spec)
	for n := 1; ; n++ {
		ours, own := bothProfiles(t, target, func() *loupe.CPUProfile { return cpuProfile(t, target.PID(), loupe.CPUOptions{}) })
		checkCPU(t, ours)
		if !biased || n == measurements {
			judgeCPU(t, spec, ours, own, loads, maxZ)
			return
		}
		if judgeCPU(t, spec, ours, own, loads, math.Inf(1)) <= maxZ {
			return
		}
	}
}

// judgeCPU compares the shares of functions, callers and labels in two profiles of the same seconds: see compareShares.
func judgeCPU(t *testing.T, spec testtarget.Spec, ours *loupe.CPUProfile, own *profile.Profile, loads []string, maxZ float64) (z float64) {
	t.Helper()
	if minorOf(t, cmp.Or(spec.Go, testtarget.Latest())) < exactLeaves {
		withoutFunction(ours.Profile, "main.step")
		withoutFunction(own, "main.step")
	}
	ours.Sample = slices.DeleteFunc(ours.Sample, func(s *profile.Sample) bool { return slices.Contains(s.Label["goroutine"], "unknown") }) // late
	if slices.Contains(loads, "spawn") {
		// The kernel looks at the timers of the runtime's profiler at its clock ticks only, and the scheduler seldom runs at one.
		scheduling := func(s *profile.Sample) bool { return slices.Contains(frames(s), "runtime.schedule") }
		ours.Sample, own.Sample = slices.DeleteFunc(ours.Sample, scheduling), slices.DeleteFunc(own.Sample, scheduling)
	}
	biased := isBiased(t, spec)
	for _, by := range []struct {
		what string
		keys func(*profile.Sample) []string
	}{{"flat", flat}, {"cum", frames}, {"labels", labelsOf}} {
		z = max(z, compareShares(t, by.what, maxZ, sharesBy(ours.Profile, biased, by.keys), sharesBy(own, biased, by.keys)))
	}
	t.Logf("%s %v: %d samples of Loupe, %d of the runtime, largest z %.1f", spec, loads, ours.Samples, sharesBy(own, false, flat).total, z)
	return z
}
