package goproc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPauseUnderLoad stops a busy program again and again. Then every stack is exact, those of running goroutines too.
func TestPauseUnderLoad(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.16.15", "1.17.13", "1.22.12", testtarget.Latest()) {
		t.Run(version, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "coder", Go: version, Stripped: true}))
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			words, running := map[uint]bool{}, 0
			for n := 0; n < 40 || (len(words) < 10 || running < 10) && n < 4000; n++ {
				snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, g := range snap.Goroutines {
					checkWord(t, g, words)
					checkExact(t, g)
					if g.State == event.StateRunning {
						running++
						if g.TID == 0 {
							t.Errorf("goroutine %d runs on no thread", g.ID)
						}
					}
				}
			}
			if len(words) < 10 || running < 10 {
				t.Errorf("%d words, %d running goroutines seen: the test shows nothing", len(words), running)
			}
		})
	}
}

// checkExact checks the stack of a goroutine of a process that stood still.
func checkExact(t *testing.T, g event.Goroutine) {
	t.Helper()
	if g.BestEffort || g.Truncated || len(g.Stack) == 0 {
		t.Errorf("goroutine %d [%s %s] started at %s: best effort %v, truncated %v, %d frames",
			g.ID, g.State, g.Reason, g.Start.Func, g.BestEffort, g.Truncated, len(g.Stack))
	}
}

// TestPauseStarved stops a program whose threads wait for a processor most of the time, some of them in the middle of a
// change of stacks or in a signal handler: the snapshot waits until they have left it.
func TestPauseStarved(t *testing.T) {
	path := testtarget.Build(t, testtarget.Spec{Program: "coder", Go: testtarget.Latest(), Stripped: true})
	target := testtarget.Start(t, path)
	defer target.Kill() // it could not get ready to end
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", target.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		tid, err := strconv.Atoi(th.Name())
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, tid, 15)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * runtime.NumCPU() {
		testtarget.Start(t, path, "1", "spin")
	}
	rounds := 60
	if !testtarget.Complete() {
		rounds = 20
		t.Log(testtarget.LeftOut + "40 more snapshots")
	}
	deadline := time.Now().Add(5 * time.Minute)
	for done := 0; done < rounds; {
		progress, err := p.Progress()
		if err != nil {
			t.Fatal(err)
		}
		snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: true})
		// Other programs are busy, too: a thread may get no processor for seconds, and cannot leave where it is.
		starved := progress.Await(context.Background(), time.Microsecond, 0) > 0 && time.Now().Before(deadline)
		still := (*ptrace.StillError)(nil)
		switch {
		case starved && errors.As(err, &still):
			t.Logf("refused: %v", err)
			continue
		case err != nil:
			t.Fatal(err)
		case starved && slices.ContainsFunc(snap.Goroutines, func(g event.Goroutine) bool { return g.BestEffort }):
			t.Log("a thread that did not run for a whole snapshot is not at rest")
			continue
		}
		for _, g := range snap.Goroutines {
			checkExact(t, g)
		}
		done++
	}
}

// TestUnharmed looks at a program that starts and ends goroutines at full speed, grows stacks, panics and collects
// garbage, and asks it whether its results are still right.
func TestUnharmed(t *testing.T) {
	for _, version := range testtarget.Versions() {
		t.Run(version, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "churn", Go: version}))
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for i := range 30 {
				snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: i%3 == 0})
				if err != nil {
					t.Fatal(err)
				}
				checkPlausible(t, snap)
			}
			if sum := target.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
				t.Errorf("the target says %q", sum)
			}
		})
	}
}

// checkPlausible checks what holds for every goroutine of every program.
func checkPlausible(t *testing.T, snap *event.Snapshot) {
	t.Helper()
	ids := map[uint64]bool{}
	for _, g := range snap.Goroutines {
		if ids[g.ID] {
			t.Errorf("goroutine %d is there twice", g.ID)
		}
		ids[g.ID] = true
		if g.BestEffort {
			continue
		}
		if g.Truncated || len(g.Stack) == 0 {
			t.Errorf("goroutine %d [%s %s] started at %s: %d frames, truncated %v", g.ID, g.State, g.Reason, g.Start.Func, len(g.Stack), g.Truncated)
			continue
		}
		if outermost := g.Stack[len(g.Stack)-1].Func; outermost != "runtime.goexit" {
			t.Errorf("goroutine %d [%s %s] has the outermost frame %s", g.ID, g.State, g.Reason, outermost)
		}
	}
	if !ids[1] {
		t.Error("the main goroutine is missing")
	}
}

// TestRunning looks at a goroutine that never stops, without stopping it: it is marked, and its outer frame is known.
func TestRunning(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "coder", Go: testtarget.Latest()}), "1", "spin")
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	withStack := 0
	for n := 0; n < 20 || withStack == 0 && n < 2000; n++ {
		snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range snap.Goroutines {
			if g.State != event.StateRunning {
				continue
			}
			if !g.BestEffort {
				t.Errorf("goroutine %d runs and is not marked as best effort", g.ID)
			}
			for _, f := range g.Stack {
				if f.Func == "main.(*worker).run" {
					withStack++
				}
			}
		}
	}
	if withStack == 0 {
		t.Error("no stack of the running goroutine names the function it was started with")
	}
}

// TestLabels reads profiler labels on every release. They were kept in a map before Go 1.24.
func TestLabels(t *testing.T) {
	many := map[string]string{"exhibit": "many"}
	for i := range 20 {
		many[fmt.Sprintf("label%02d", i)] = fmt.Sprintf("value %d", i*i)
	}
	want := []map[string]string{
		{"exhibit": "one", "key": "value"},
		{"exhibit": "unicode", "größe": "大きい", "emoji": "🔍"},
		{"exhibit": "empty", "empty value": "", "": "empty key"},
		{"request": "42", "inherited": "yes"},
		many,
	}
	for _, version := range testtarget.Versions() {
		t.Run(version, func(t *testing.T) {
			target := startZoo(t, version)
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, labels := range want {
				found := false
				for _, g := range snap.Goroutines {
					found = found || maps.Equal(g.Labels, labels)
				}
				if !found {
					t.Errorf("no goroutine has the labels %q", labels)
				}
			}
			for _, g := range snap.Goroutines {
				if g.Start.Func == "main.clearedLabels" && g.Labels != nil {
					t.Errorf("labels %q of a goroutine that has cleared them", g.Labels)
				}
			}
		})
	}
}

// TestOtherNamespaces looks at a process in a PID namespace of its own, as in a container.
func TestOtherNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make a PID namespace")
	}
	for _, version := range []string{"1.12.17", testtarget.Latest()} {
		cmd := testcmd.Within(t, 0, testtarget.Build(t, testtarget.Spec{Program: "zoo", Go: version, Stripped: true}))
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
		target := testtarget.StartCmd(t, cmd)
		target.Command("gc")
		compareWithRuntime(t, target, goproc.SnapshotOptions{})
		compareWithRuntime(t, target, goproc.SnapshotOptions{Pause: true})
		info, err := goproc.Describe(target.PID())
		if err != nil {
			t.Fatal(err)
		}
		if info.NSPID != 1 {
			t.Errorf("PID %d in its own namespace, want 1", info.NSPID)
		}
	}
}

// TestLibrary looks at a program of C that has loaded a shared library written in Go.
func TestLibrary(t *testing.T) {
	built, err := os.ReadFile(testtarget.BadBinaries(t)["go-c-shared"])
	if err != nil {
		t.Fatal(err)
	}
	library := t.TempDir() + "/libtarget.so"
	if err := os.WriteFile(library, built, 0o700); err != nil {
		t.Fatal(err)
	}
	source := t.TempDir() + "/host.c"
	host := t.TempDir() + "/host"
	const program = `#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
	if (!dlopen(argv[1], RTLD_NOW)) return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	char c;
	while (read(0, &c, 1) == 1) {}
	return 0;
}
`
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := testcmd.Combined(testcmd.Command(t, "gcc", "-o", host, source, "-ldl")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	target := testtarget.Start(t, host, library)
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
	if err != nil {
		t.Fatal(err)
	}
	forcegc := false
	for _, g := range snap.Goroutines {
		forcegc = forcegc || g.Start.Func == "runtime.forcegchelper" && g.State == event.StateWaiting
	}
	if !forcegc {
		t.Errorf("the library's runtime has no forcegchelper among %d goroutines", len(snap.Goroutines))
	}
}

// TestPauseInFork stops a program that starts child processes all the time. While the child runs on its stack, the
// goroutine's return address is in a register (syscall.rawVforkSyscall).
func TestPauseInFork(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.18.10", testtarget.Latest()) {
		t.Run(version, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "forker", Go: version}))
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			forks := 0
			for n := 0; n < 100 || forks == 0 && n < 5000; n++ {
				snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: true})
				if err != nil {
					t.Fatal(err)
				}
				checkPlausible(t, snap)
				for _, g := range snap.Goroutines {
					if len(g.Stack) > 0 && g.Stack[0].Func == "syscall.rawVforkSyscall" {
						forks++
					}
				}
			}
			if forks == 0 {
				t.Error("no goroutine was ever seen inside of a fork: the test shows nothing")
			}
		})
	}
}

// TestEach passes the goroutines of a snapshot on one by one: the same ones that a snapshot keeps.
func TestEach(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "zoo"}))
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	kept := take(t, p, goproc.SnapshotOptions{})
	passed := map[uint64]string{}
	snap := take(t, p, goproc.SnapshotOptions{Each: func(g *event.Goroutine) {
		passed[g.ID] = fmt.Sprint(g.Parent, g.CreatedBy, g.Start, g.System, g.Labels)
	}})
	if snap.Goroutines != nil || len(passed) != len(kept.Goroutines) || len(passed) < 50 {
		t.Errorf("%d kept, %d passed on, and %d kept nevertheless", len(kept.Goroutines), len(passed), len(snap.Goroutines))
	}
	for _, g := range kept.Goroutines {
		if want := fmt.Sprint(g.Parent, g.CreatedBy, g.Start, g.System, g.Labels); passed[g.ID] != want {
			t.Errorf("goroutine %d: %s, want %s", g.ID, passed[g.ID], want)
		}
	}
	if _, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: true, Each: func(*event.Goroutine) {}}); err == nil {
		t.Error("passed on while paused")
	}
}

// TestRanSince takes two snapshots of goroutines that wait all the time, and of workers that do not.
func TestRanSince(t *testing.T) {
	twice := func(program, release string) (ran, compared int) {
		target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: program, Go: release}))
		if program == "zoo" {
			target.Command("gc") // the runtime notes who waits
		}
		p, err := goproc.Open(target.PID(), goproc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		earlier := map[uint64]*event.Goroutine{}
		// On a busy machine the workers may get no processor for a while.
		begin := time.Now()
		for n := 0; n < 2 || program != "zoo" && ran == 0 && time.Since(begin) < time.Minute; n++ {
			snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range snap.Goroutines {
				g := &snap.Goroutines[i]
				before := earlier[g.ID]
				if earlier[g.ID] = g; n == 0 || before == nil || program == "zoo" && (!g.WaitKnown || g.Wait <= before.Wait) {
					continue
				}
				compared++
				if g.RanSince(before) {
					ran++
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		return ran, compared
	}
	for _, release := range testtarget.Versions() {
		if ran, compared := twice("zoo", release); ran > 0 || compared < 20 {
			t.Errorf("Go %s: %d of %d goroutines that wait all the time are said to have run", release, ran, compared)
		}
	}
	if ran, compared := twice("coder", testtarget.Latest()); ran == 0 {
		t.Errorf("none of %d goroutines is said to have run, of which most have", compared)
	}
}
