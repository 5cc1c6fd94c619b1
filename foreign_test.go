package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// breakpoint is where another tracer puts a breakpoint.
type breakpoint struct {
	function string
	offset   uint64 // from its entry
	addr     uint64
	file     uint64 // where it is in the executable
}

func (p breakpoint) String() string { return fmt.Sprintf("%s+%d", p.function, p.offset) }

// points are the places that concern other tracers in a program that engine inline observes with all kinds of events: the
// entries and returns of the functions that it changes, and the changes themselves.
type points struct{ usual, ours []breakpoint }

// shared is a busy program that other tracers observe, too.
type shared struct {
	*testtarget.Process
	points
	text string
}

func share(t *testing.T, release string) *shared {
	t.Helper()
	p := &shared{Process: testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer", Go: release}))}
	expectWork(t, p.Process)
	p.text = textOf(t, p.PID())
	bin, err := gobin.Open(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	at := func(f gobin.Func, addr uint64) breakpoint {
		offset, ok := bin.FileOffset(addr)
		if !ok {
			t.Fatalf("%s is not in the file", f.Name)
		}
		return breakpoint{f.Name, addr - f.Entry, addr, offset}
	}
	o := p.observe(t)
	notes, err := inline.Look(p.PID())
	if err != nil || notes == nil {
		t.Fatal(notes, err)
	}
	o.close(t)
	seen := map[string]bool{}
	for _, e := range notes.Edits {
		f, ok := bin.FuncForPC(e.Addr)
		if !ok {
			t.Fatalf("no function at %#x", e.Addr)
		}
		p.ours = append(p.ours, at(f, e.Addr))
		if seen[f.Name] {
			continue
		}
		seen[f.Name] = true
		p.usual = append(p.usual, at(f, f.Entry))
		returns, err := bin.ReturnSites(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range returns {
			p.usual = append(p.usual, at(f, r.PC))
		}
	}
	return p
}

// observation is one with engine inline.
type observation struct {
	s      *loupe.Session
	events atomic.Int64
	marks  atomic.Int64 // of events that may be missing, nobody knows how many
	done   chan struct{}
}

// attach attaches engine inline. While another tracer changes the code, the kernel may make threads of the program wait such
// that they cannot be stopped. Attaching is refused for that, and is possible a little later.
func (p *shared) attach() (*observation, error) {
	o := loupe.Options{Engine: loupe.EngineInline, Kinds: event.KindsAll, BufferBytes: 4 << 20}
	s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), o)
	for deadline := time.Now().Add(time.Minute); err != nil && errors.As(err, new(*ptrace.StillError)) && time.Now().Before(deadline); {
		s, err = loupe.Attach(context.Background(), loupe.PID(p.PID()), o)
	}
	if err != nil {
		return nil, err
	}
	seen := &observation{s: s, done: make(chan struct{})}
	go func() {
		defer close(seen.done)
		for e := range s.Events() {
			seen.events.Add(1)
			if e.Kind == event.Lost && e.Value == 0 {
				seen.marks.Add(1)
			}
		}
	}()
	return seen, nil
}

func (p *shared) observe(t *testing.T) *observation {
	t.Helper()
	o, err := p.attach()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *observation) close(t *testing.T) {
	t.Helper()
	if err := o.s.Detach(); err != nil {
		t.Errorf("detaching: %v", err)
	}
	<-o.done
	if err := o.s.Close(); err != nil {
		t.Error(err)
	}
}

// check checks that the program works, and when nobody observes it that its code is the file's.
func (p *shared) check(t *testing.T, when string, alone bool) {
	t.Helper()
	expectWork(t, p.Process)
	if !alone {
		return
	}
	for deadline := time.Now().Add(30 * time.Second); textOf(t, p.PID()) != p.text; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) { // the kernel removes probes a little later
			t.Fatalf("%s the code has changed; breakpoints at %v", when, p.breakpoints(t))
		}
	}
}

func (p *shared) breakpoints(t *testing.T) []goproc.Breakpoint {
	t.Helper()
	process, err := goproc.Open(p.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	list, err := process.Breakpoints(nil)
	if err != nil {
		t.Error(err)
	}
	return list
}

// await waits until another tracer has breakpoints at all points, and reports whether it has: it may end before.
func (p *shared) await(t *testing.T, at []breakpoint, by *tool) bool {
	t.Helper()
	wanted := map[uint64]bool{}
	for _, pt := range at {
		wanted[pt.addr] = true
	}
	deadline := time.Now().Add(time.Minute)
	for there := 0; there < len(wanted); {
		if time.Now().After(deadline) {
			t.Fatalf("the other tracer has breakpoints at %d of %d points after a minute:\n%s", there, len(wanted), by.out)
		}
		select {
		case <-by.ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
		there = len(p.breakpoints(t))
	}
	return true
}

// tracer starts another tracer with breakpoints at points of a program. What it returns ends that.
type tracer func(t *testing.T, p *shared, at []breakpoint) (stop func())

// together has another tracer come and go before, while and after engine inline observes a program.
func together(t *testing.T, p *shared, trace tracer, usual, ours []breakpoint, debugger bool) {
	t.Helper()
	all := append(append([]breakpoint(nil), usual...), ours...)

	stop := trace(t, p, usual)
	// gdb takes its breakpoints out for a moment when a thread steps over one.
	for deadline := time.Now().Add(time.Minute); len(p.breakpoints(t)) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the other tracer has no breakpoints")
		}
	}
	o, err := p.attach()
	switch {
	case debugger && err == nil:
		t.Error("attached to a program that a debugger has stopped")
		o.close(t)
	case !debugger && err != nil:
		t.Errorf("breakpoints at entries and returns: %v", err)
	case err == nil:
		p.check(t, "", false)
		if o.events.Load() == 0 {
			t.Error("no events beside another tracer")
		}
		o.close(t)
	}
	stop()
	p.check(t, "after another tracer that came first", true)

	if len(ours) > 0 {
		stop = trace(t, p, all)
		if o, err := p.attach(); err == nil {
			t.Error("attached where another tracer has breakpoints")
			o.close(t)
		} else if !debugger && (!errors.Is(err, loupe.ErrUnsupported) || !strings.Contains(err.Error(), "another tracer has a breakpoint at runtime.")) {
			t.Errorf("attached where another tracer has breakpoints: %v", err)
		} else if !debugger && strings.Count(err.Error(), "runtime.") > 3 {
			t.Errorf("too many places: %v", err)
		}
		p.check(t, "", false)
		stop()
		p.check(t, "after a refusal", true)
	}

	o = p.observe(t)
	stop = trace(t, p, all)
	p.check(t, "", false)
	stop()
	p.check(t, "", false)
	before := o.events.Load()
	p.check(t, "", false)
	for deadline := time.Now().Add(30 * time.Second); o.events.Load() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no events after another tracer has come and gone")
		}
	}
	o.close(t)
	p.check(t, "after another tracer came and went", true)

	if debugger { // what Loupe cannot take back while a debugger holds the program is repaired when that has gone
		observer := observeElsewhere(t, p)
		stop = trace(t, p, all)
		p.check(t, "", false)
		observer.Process.Kill()
		observer.Wait()
		p.check(t, "", false)
		stop()
		p.repair(t)
	} else {
		o = p.observe(t)
		stop = trace(t, p, all)
		p.check(t, "", false)
		o.close(t)
		p.check(t, "", false)
		stop()
	}
	p.check(t, "after another tracer stayed longer", true)
}

// observeElsewhere observes with engine inline from another process, to be killed.
func observeElsewhere(t *testing.T, p *shared) *exec.Cmd {
	t.Helper()
	observer, out := testcmd.Command(t, os.Args[0], "-test.run=^TestInlineKilled$"), &lines{}
	observer.Env = append(os.Environ(), "LOUPE_TEST_INLINE="+strconv.Itoa(p.PID()))
	observer.Stdout = out
	if err := observer.Start(); err != nil {
		t.Fatal(err)
	}
	out.await(t, "attached", 1)
	return observer
}

// repair removes what a killed engine has left, as soon as that is known to be dead.
func (p *shared) repair(t *testing.T) {
	t.Helper()
	process, err := goproc.Open(p.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	notes, err := inline.Look(p.PID())
	for ; err == nil && notes != nil && notes.Alive(); notes, err = inline.Look(p.PID()) {
		time.Sleep(20 * time.Millisecond)
	}
	if err == nil {
		notes, err = inline.Repair(p.PID(), process.SignalStacks)
	}
	if err != nil || notes == nil {
		t.Fatalf("repaired %v: %v", notes, err)
	}
}

// foreignReleases returns the releases to test: all of them if the test may take long.
func foreignReleases(t *testing.T) []string {
	t.Helper()
	if *torture >= 10*time.Second {
		return testtarget.Versions()
	}
	return append(testtarget.Rare(t, "1.12.17"), testtarget.Latest())
}

// TestTortureForeignProbes has the kernel's uprobes, which bpftrace, perf and others use, come and go at the entries and
// returns of all functions that engine inline changes, and at all of its places.
func TestTortureForeignProbes(t *testing.T) {
	for _, release := range foreignReleases(t) {
		t.Run("go"+release, func(t *testing.T) {
			p := share(t, release)
			usual, ours := p.usual, p.ours
			if *torture < 10*time.Second && !testtarget.Complete() { // what runs often takes long with a breakpoint
				t.Log(testtarget.LeftOut + "functions that run often")
				usual, ours = rare(usual, false), rare(ours, false)
			}
			t.Logf("%d entries and returns, %d places", len(usual), len(ours))
			together(t, p, uprobes, usual, ours, false)
		})
	}
}

// uprobes puts uprobes in place by one link, as tracers with eBPF do. The kernel removes such probes at once; those of perf it
// removes one after the other, and waits some 80 milliseconds for each.
func uprobes(t *testing.T, p *shared, at []breakpoint) func() {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, AttachType: ebpf.AttachTraceUprobeMulti, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	exe, err := link.OpenExecutable(p.Path())
	if err != nil {
		t.Fatal(err)
	}
	var offsets []uint64
	for _, pt := range at {
		offsets = append(offsets, pt.file)
	}
	probes, err := exe.UprobeMulti(nil, prog, &link.UprobeMultiOptions{Addresses: offsets, PID: uint32(p.PID())})
	if err != nil {
		t.Fatalf("uprobes at %v: %v", at, err)
	}
	return func() {
		if err := probes.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTortureForeignTools does the same with tracers that people use.
func TestTortureForeignTools(t *testing.T) {
	for _, release := range foreignReleases(t) {
		for name, tool := range map[string]tracer{"bpftrace": bpftrace, "perf": perf, "gdb": gdb} {
			t.Run(name+"/go"+release, func(t *testing.T) {
				if name != "gdb" {
					testtarget.Whole(t, name)
				}
				p := share(t, release)
				usual, ours := plain(p.usual), plain(p.ours)
				if *torture < 10*time.Second || name == "gdb" { // a debugger stops the program at each hit
					few := name == "gdb" || name == "perf" && !testtarget.Complete() // the kernel removes those of perf one by one
					usual, ours = rare(usual, few), rare(ours, few)
				}
				if name == "bpftrace" { // Debian's knows no offsets
					usual, ours = entries(usual), nil
				}
				together(t, p, tool, usual, ours, name == "gdb")
			})
		}
	}
}

// plain returns the points in functions whose names need no quoting.
func plain(list []breakpoint) []breakpoint {
	var some []breakpoint
	for _, p := range list {
		if regexp.MustCompile(`^[\w.]+$`).MatchString(p.function) {
			some = append(some, p)
		}
	}
	return some
}

// rare returns the points in functions for system calls, and of garbage collections; or in those that hardly ever run: gdb
// may end a program from which it detaches while a thread is at a breakpoint.
func rare(list []breakpoint, hardly bool) []breakpoint {
	names := regexp.MustCompile(`syscall$|^runtime\.gc`)
	if hardly {
		names = regexp.MustCompile(`^runtime\.(entersyscallblock|procresize|needm|dropm)$`)
	}
	var some []breakpoint
	for _, p := range list {
		if names.MatchString(p.function) {
			some = append(some, p)
		}
	}
	return some
}

// entries returns the points at which functions begin.
func entries(list []breakpoint) []breakpoint {
	var some []breakpoint
	for _, p := range list {
		if p.offset == 0 {
			some = append(some, p)
		}
	}
	return some
}
