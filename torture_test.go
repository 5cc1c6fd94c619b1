package loupe_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// torture is how long each program is tortured. `make torture` takes minutes.
var torture = flag.Duration("torture", 600*time.Millisecond, "how long TestTorture goes on with each program")

// TestTorture attaches engine inline to busy programs and detaches it, again and again: with all that a program can do
// meanwhile (package testtarget, mixer), its results stay right, all its work goes on, and nothing is left in it.
func TestTorture(t *testing.T) {
	specs := append([]testtarget.Spec{{Cgo: true}, {PIE: true}, {Library: true}},
		testtarget.Rare(t, []testtarget.Spec{{Stripped: true}, {Plugin: true}, {Cgo: true, Go: "1.12.17"}, {Cgo: true, Go: "1.16.15"}, {Library: true, Go: "1.12.17"},
			{Archive: true}, {Archive: true, Go: "1.12.17"}}...)...)
	for _, v := range testtarget.Versions() {
		specs = append(specs, testtarget.Spec{Go: v})
	}
	for _, spec := range specs {
		spec.Program = "mixer"
		t.Run(spec.String(), func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, spec))
			if spec.Plugin {
				loadWhileObserved(t, p)
			}
			expectWork(t, p) // it opens some files when it first needs them
			at := func() holdings {
				p.Command("rest")
				defer p.Command("work")
				return holdingsOf(t, p.PID())
			}
			before := at()
			tm := tormentor{pid: p.PID()}
			tm.torture(t, *torture/2)
			halfway := at()
			tm.torture(t, *torture/2)
			after := at()
			tm.report(t)
			after.expectAs(t, before)
			after.expectNoMoreThan(t, halfway)
			expectWork(t, p)
		})
	}
}

// TestTortureRealPrograms does the same to programs that were not written for it, while clients check their answers.
func TestTortureRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			load := target.StartLoad()
			load.Await(t, 20)
			before := holdingsOf(t, target.PID())
			tm := tormentor{pid: target.PID()}
			tm.torture(t, *torture/2)
			load.Await(t, 1)
			halfway := holdingsOf(t, target.PID())
			tm.torture(t, *torture/2)
			load.Await(t, 1)
			after := holdingsOf(t, target.PID())
			answered, err := load.Stop()
			if err != nil {
				t.Errorf("a wrong answer: %v", err)
			}
			tm.report(t)
			t.Logf("%d requests answered", answered)
			// Clients come and go, and data are kept.
			before.files, after.files = inMemory(before.files), inMemory(after.files)
			after.virtual, after.resident = min(after.virtual, halfway.virtual), min(after.resident, halfway.resident)
			after.expectAs(t, before)
			after.expectNoMoreThan(t, halfway)
		})
	}
}

// TestTortureKilled kills a Loupe with engine inline at any moment, again and again: the program's work goes on all of the
// time, and once what was left is repaired, its code is as it was.
func TestTortureKilled(t *testing.T) {
	specs := []testtarget.Spec{{Cgo: true}}
	if *torture >= 10*time.Second {
		specs = append(specs, testtarget.Spec{}, testtarget.Spec{Go: "1.12.17"}, testtarget.Spec{Go: "1.16.15"})
	}
	for _, spec := range specs {
		spec.Program = "mixer"
		t.Run(spec.String(), func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, spec))
			process, err := goproc.Open(p.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer process.Close()
			code := textOf(t, p.PID())
			times, repaired := 0, 0
			for begin := time.Now(); times == 0 || time.Since(begin) < *torture; times++ {
				killObserver(t, p.PID())
				expectWork(t, p)
				notes, err := inline.Look(p.PID())
				for ; err == nil && notes != nil && notes.Alive(); notes, err = inline.Look(p.PID()) {
					time.Sleep(20 * time.Millisecond)
				}
				if err != nil {
					t.Fatal(err)
				}
				if notes, err = inline.Repair(p.PID(), process.SignalStacks); err != nil {
					t.Fatal(err)
				}
				if notes != nil {
					repaired++
				}
				if now := textOf(t, p.PID()); now != code {
					t.Fatalf("code\n%s, before\n%s", now, code)
				}
			}
			t.Logf("killed %d times, repaired %d times", times, repaired)
			expectWork(t, p)
		})
	}
}

// killObserver starts another process that observes one with engine inline, and kills it soon.
func killObserver(t *testing.T, pid int) {
	t.Helper()
	observer := testcmd.Command(nil, os.Args[0], "-test.run=^TestInlineKilled$")
	observer.Env = append(os.Environ(), "LOUPE_TEST_INLINE="+strconv.Itoa(pid))
	if err := observer.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	if err := observer.Process.Kill(); err != nil {
		t.Errorf("it could not attach: %v", err)
	}
	observer.Wait()
}

// tormentor attaches to a process and detaches.
type tormentor struct {
	pid            int
	cycles, events int
	longest        time.Duration // that detaching took

	options func(cycle int) loupe.Options // nil: those of events
}

func (tm *tormentor) torture(t *testing.T, last time.Duration) {
	t.Helper()
	kinds := []event.Kinds{event.KindsDefault, event.KindsDefault.Union(event.KindsSyscall), event.KindsAll.Without(event.KindsOf(event.ChanMake))}
	const delays = 7 // after which it is detached; without the longer ones there may be nothing to see
	for end := time.Now().Add(last); tm.cycles == 0 || last > 0 && tm.cycles < delays || time.Now().Before(end); {
		tm.cycles++
		opt := loupe.Options{Engine: loupe.EngineInline, Kinds: kinds[tm.cycles%len(kinds)], BufferBytes: 1 << 20}
		if tm.options != nil {
			opt = tm.options(tm.cycles)
		}
		s, err := loupe.Attach(context.Background(), loupe.PID(tm.pid), opt)
		if err != nil {
			t.Fatalf("attaching for the %d. time: %v", tm.cycles, err)
		}
		closed := make(chan error, 1)
		time.AfterFunc(time.Duration(tm.cycles%delays)*3*time.Millisecond, func() {
			begin := time.Now()
			err := s.Close()
			tm.longest = max(tm.longest, time.Since(begin))
			closed <- err
		})
		for range s.Events() {
			tm.events++
		}
		if err := errors.Join(<-closed, s.Err()); err != nil {
			t.Fatalf("detaching for the %d. time: %v", tm.cycles, err)
		}
	}
}

func (tm *tormentor) report(t *testing.T) {
	t.Helper()
	t.Logf("%d times, %d events, at most %v to detach", tm.cycles, tm.events, tm.longest)
	if tm.cycles == 0 || tm.events == 0 {
		t.Error("nothing was observed")
	}
}

// loadWhileObserved has a program load its plugin while probes are in its runtime.
func loadWhileObserved(t *testing.T, p *testtarget.Process) {
	t.Helper()
	warned := func(load func()) int {
		s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: loupe.EngineInline})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan int)
		go func() {
			n := 0
			for range s.Events() {
				n++
			}
			done <- n
		}()
		load()
		expectWork(t, p)
		err = s.Detach()
		if n := <-done; n == 0 {
			t.Error("nothing was observed")
		}
		if err := errors.Join(err, s.Close(), s.Err()); err != nil {
			t.Error(err)
		}
		return strings.Count(strings.Join(event.WarningTexts(s.Warnings()), "\n"), "plugins are loaded (1)")
	}
	if n := warned(func() {
		if answer := p.Command("load"); answer != "loaded" {
			t.Error(answer)
		}
	}); n != 0 {
		t.Errorf("warned %d times of a plugin that is not there yet", n)
	}
	if n := warned(func() {}); n != 1 {
		t.Errorf("warned %d times of the plugin", n)
	}
}

// expectWork waits until a mixer has done more work of every kind, all of it right.
func expectWork(t *testing.T, p *testtarget.Process) {
	t.Helper()
	var first []string
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer := p.Command("sum")
		if !strings.HasPrefix(answer, "sum ok ") {
			t.Fatalf("the program says %q", answer)
		}
		now := strings.Fields(answer)[2:]
		if first == nil {
			first = now
			continue
		}
		stuck := slices.DeleteFunc(slices.Clone(now), func(count string) bool { return !slices.Contains(first, count) })
		if len(stuck) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("work that is not done any more: %v", stuck)
		}
	}
}

// holdings are what a process has that an engine could have left there, or changed.
type holdings struct {
	code     string   // hashes of the code, by mapping
	foreign  string   // mappings of the kinds that an engine makes
	files    []string // open file descriptors
	threads  int
	mappings int
	virtual  int // size of all mappings, in KiB
	resident int // what is in memory of what is the process's own, in KiB
}

func holdingsOf(t *testing.T, pid int) holdings {
	t.Helper()
	h := holdings{code: textOf(t, pid), foreign: foreignMaps(t, pid), files: filesOf(t, pid), mappings: len(mapsOf(t, pid))}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]*int{"Threads": &h.threads, "VmSize": &h.virtual, "RssAnon": &h.resident} {
		_, rest, ok := strings.Cut(string(status), "\n"+name+":")
		fields := strings.Fields(rest)
		if !ok || len(fields) == 0 {
			t.Fatalf("/proc/%d/status does not tell %s", pid, name)
		}
		if *to, err = strconv.Atoi(fields[0]); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// expectAs checks what has to be as before.
func (h holdings) expectAs(t *testing.T, before holdings) {
	t.Helper()
	if h.code != before.code {
		t.Errorf("code\n%s, before\n%s", h.code, before.code)
	}
	if h.foreign != before.foreign {
		t.Errorf("mappings\n%s, before\n%s", h.foreign, before.foreign)
	}
	if !slices.Equal(h.files, before.files) {
		t.Errorf("files %q, before %q", h.files, before.files)
	}
}

// expectNoMoreThan checks what a program changes by itself, within bounds that do not depend on how long it runs: a mixer's
// threads, each with a stack and a part of the heap when it is C's. What every time adds shows within a minute.
func (h holdings) expectNoMoreThan(t *testing.T, before holdings) {
	t.Helper()
	for _, c := range []struct {
		what              string
		now, before, most int
	}{
		{"threads", h.threads, before.threads, 20},
		{"mappings", h.mappings, before.mappings, 60},
		{"KiB mapped", h.virtual, before.virtual, 512 << 10},
		{"KiB in memory", h.resident, before.resident, 64 << 10},
	} {
		if c.now > c.before+c.most {
			t.Errorf("%d %s, and %d when half of the time was over", c.now, c.what, c.before)
		}
	}
	t.Logf("%d threads, %d mappings, %d MiB mapped, %d MiB in memory; at half time %d, %d, %d, %d", h.threads, h.mappings,
		h.virtual>>10, h.resident>>10, before.threads, before.mappings, before.virtual>>10, before.resident>>10)
}

func mapsOf(t *testing.T, pid int) []procmap.Mapping {
	t.Helper()
	maps, err := procmap.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	return maps
}

// textOf returns hashes of all code of a process that comes from files, as it is in memory.
func textOf(t *testing.T, pid int) string {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	var list []string
	for _, m := range mapsOf(t, pid) {
		if !m.Exec() || m.Inode == 0 {
			continue
		}
		code := make([]byte, m.End-m.Start)
		if _, err := mem.ReadAt(code, int64(m.Start)); err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%x %x %s", m.Start, sha256.Sum256(code), m.Path))
	}
	if list == nil {
		t.Fatal("no code")
	}
	return strings.Join(list, "\n")
}

// foreignMaps returns the mappings of a process that an engine could have left: those with code, those of files in memory,
// and all that a jump from the program reaches.
func foreignMaps(t *testing.T, pid int) string {
	t.Helper()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	maps := mapsOf(t, pid)
	text := slices.IndexFunc(maps, func(m procmap.Mapping) bool { return m.Exec() && m.Path == exe })
	if text < 0 {
		t.Fatalf("%s is not mapped", exe)
	}
	const reach = 1 << 31
	var list []string
	for _, m := range maps {
		near := m.End+reach > maps[text].Start && m.Start < maps[text].End+reach && m.Path != "[heap]"
		if m.Exec() || near || strings.Contains(m.Path, "memfd:") {
			list = append(list, fmt.Sprintf("%x-%x %s %s", m.Start, m.End, m.Perms, m.Path))
		}
	}
	return strings.Join(list, "\n")
}

// filesOf returns what a process's file descriptors are, without the identities of pipes and the like.
func filesOf(t *testing.T, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		name, err := os.Readlink(dir + e.Name())
		if err != nil {
			continue // closed meanwhile
		}
		kind, _, _ := strings.Cut(name, ":[")
		list = append(list, kind)
	}
	slices.Sort(list)
	return list
}

// inMemory returns those of a list of files that are in memory only.
func inMemory(files []string) []string {
	return slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !strings.Contains(name, "memfd:") })
}
