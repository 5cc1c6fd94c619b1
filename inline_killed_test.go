package loupe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/inject"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A point is a system call by which engine inline changes a process, or what it holds of one, while it attaches or detaches:
// in the section of the observer during which the process is traced without a break, and there in one of the calls that a
// thread of the process makes for it. The same point is reached in each run, however many threads the process has.
type point struct {
	section, call int
	what          string
	n             int // of the points that are the same otherwise, from 1 on
}

func (p point) String() string {
	return fmt.Sprintf("section %d, call %d, %s %d", p.section, p.call, p.what, p.n)
}

// pointer tells the points of an observer.
type pointer struct {
	section, call    int
	detached, inCall bool
	seen             map[point]int
}

// ptraceRequests are those that change the process, or its being traced.
var ptraceRequests = map[uint64]string{
	unix.PTRACE_SEIZE: "PTRACE_SEIZE", unix.PTRACE_INTERRUPT: "PTRACE_INTERRUPT", unix.PTRACE_CONT: "PTRACE_CONT",
	unix.PTRACE_SYSCALL: "PTRACE_SYSCALL", unix.PTRACE_SETREGSET: "PTRACE_SETREGSET", unix.PTRACE_SETSIGMASK: "PTRACE_SETSIGMASK",
	unix.PTRACE_POKEDATA: "PTRACE_POKEDATA", unix.PTRACE_SETOPTIONS: "PTRACE_SETOPTIONS", unix.PTRACE_DETACH: "PTRACE_DETACH",
}

// otherCalls are those that are points from the time on when a process is traced first.
var otherCalls = map[uint64]string{
	unix.SYS_WAIT4: "wait4", unix.SYS_PWRITE64: "pwrite", unix.SYS_PROCESS_VM_WRITEV: "process_vm_writev", unix.SYS_FALLOCATE: "fallocate",
	unix.SYS_FCNTL: "fcntl", unix.SYS_MMAP: "mmap", unix.SYS_MUNMAP: "munmap",
	unix.SYS_PIDFD_GETFD: "pidfd_getfd", unix.SYS_TGKILL: "tgkill",
}

// next returns the point that a call is; false when it is none. It is called once for each call, at the same end of it.
func (p *pointer) next(c inject.Call) (point, bool) {
	what := otherCalls[c.Nr]
	if c.Nr == unix.SYS_PTRACE {
		what = ptraceRequests[c.Args[0]]
	}
	const addSeals = 1033
	switch {
	case what == "", c.Nr == unix.SYS_FCNTL && c.Args[1] != addSeals, c.Nr == unix.SYS_MMAP && int32(c.Args[4]) < 0,
		c.Nr == unix.SYS_TGKILL && c.Args[0] == uint64(c.PID): // of the Go runtime's own
		return point{}, false
	case what == "PTRACE_SEIZE" && (p.detached || p.section == 0):
		p.section, p.call, p.detached = p.section+1, 0, false
	case what == "PTRACE_SETREGSET":
		if p.inCall = !p.inCall; p.inCall {
			p.call++
		}
	}
	if p.section == 0 {
		return point{}, false
	}
	p.detached = p.detached || what == "PTRACE_DETACH"
	at := point{section: p.section, call: p.call, what: what}
	p.seen[at]++
	at.n = p.seen[at]
	return at, true
}

// The sections of an observer that attaches and detaches at once.
const (
	enterSection = 1 + iota
	_            // patching
	_            // putting back what was patched
	unmapSection
)

// observedVariable names in its environment the process that this test executable attaches to instead of running tests.
const observedVariable = "LOUPE_TEST_COME_AND_GO"

// comeAndGo attaches to a process and detaches.
func comeAndGo(pid string) {
	n, _ := strconv.Atoi(pid)
	s, err := loupe.Attach(context.Background(), loupe.PID(n), loupe.Options{Engine: loupe.EngineInline,
		Kinds: event.KindsOf(event.GoCreate), BufferBytes: 1 << 16})
	if err == nil {
		err = s.Close()
	}
	fmt.Printf("ended: %v\n", err)
}

// observers say how to start one.
type observers struct {
	path string // of this program, where the observer may execute it
	caps bool   // it is user nobody with CAP_SYS_PTRACE and no other right
}

// withCapability returns observers that may trace processes of other users and nothing else: they do by other system calls
// what needs the owner's permissions.
func withCapability(t *testing.T) observers {
	t.Helper()
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "loupe-observer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "observer")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return observers{path: path, caps: true}
}

func (o observers) start(t *testing.T, pid int) (cmd *exec.Cmd, said func() string) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "said")
	if err != nil {
		t.Fatal(err)
	}
	cmd = testcmd.Command(t, o.path)
	if o.caps {
		const nobody = 65534
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: []uintptr{unix.CAP_SYS_PTRACE}}
	}
	cmd.Env = append(os.Environ(), observedVariable+"="+strconv.Itoa(pid))
	cmd.Stdout = out
	return cmd, func() string {
		b, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
		return strings.TrimSuffix(string(b), "\n")
	}
}

// commonPoints returns the points that two undisturbed observations have in common, in the order of the first one. The numbers
// of calls differ between observations, by the number of threads for instance.
func commonPoints(t *testing.T, o observers, first, second int) []point {
	t.Helper()
	again := pointsOf(t, o, second)
	return slices.DeleteFunc(pointsOf(t, o, first), func(p point) bool { return !slices.Contains(again, p) })
}

// pointsOf returns the points of an undisturbed observer of a process, in their order.
func pointsOf(t *testing.T, o observers, pid int) []point {
	t.Helper()
	sections := 0
	for range 20 {
		var points []point
		p := pointer{seen: map[point]int{}}
		cmd, said := o.start(t, pid)
		status, err := inject.Run(cmd, func(c inject.Call) bool {
			if !c.After {
				if at, ok := p.next(c); ok {
					points = append(points, at)
				}
			}
			return true
		})
		if line := said(); err != nil || status.ExitStatus() != 0 || line != "ended: <nil>" {
			t.Fatalf("the observer: %#x, %v, %s", status, err, line)
		}
		if sections = p.section; sections == unmapSection {
			return points
		}
		// It had to stop the program again, because a thread was in the code to be changed.
	}
	t.Fatalf("%d sections, again and again", sections)
	return nil
}

// distinct returns points at which something else is being done each time: all of the first call that a thread makes; of the
// other calls those when the call has been made and when it is over; and of what is done many times the first and the last.
func distinct(points []point) []point {
	last := map[point]int{}
	for _, p := range points {
		n := p.n
		p.n = 0
		last[p] = max(last[p], n)
	}
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool {
		n := p.n
		p.n = 0
		inCall := p.section == enterSection && p.call > 1 || p.section == unmapSection
		if inCall && strings.HasPrefix(p.what, "PTRACE_") && p.what != "PTRACE_DETACH" {
			return p.what != "PTRACE_INTERRUPT" && (p.what != "PTRACE_SETREGSET" || n != 2)
		}
		if inCall && p.what == "wait4" {
			return true
		}
		return n != 1 && n != last[p]
	})
}

// thorough says whether the full forms run, of minutes.
func thorough() bool { return *torture >= 10*time.Second }

// TestInlineKilledAtCall kills an observer with engine inline before and after each system call by which it changes the
// program: the program goes on, and after a repair it is as it was: its code byte by byte, its mappings, its files.
func TestInlineKilledAtCall(t *testing.T) {
	type form struct {
		spec       testtarget.Spec
		capability bool // of the observer, which has no other right
	}
	tests := []form{{}}
	if thorough() {
		tests = append(tests, form{capability: true}, form{spec: testtarget.Spec{Cgo: true, PIE: true}},
			form{spec: testtarget.Spec{Go: "1.12.17"}})
	}
	for _, test := range tests {
		spec := test.spec
		spec.Program = "mixer"
		t.Run(fmt.Sprintf("%v/capability=%v", spec, test.capability), func(t *testing.T) {
			o := observers{path: os.Args[0]}
			if test.capability {
				o = withCapability(t)
			}
			p := testtarget.Start(t, testtarget.Build(t, spec), "1")
			expectWork(t, p)
			all := commonPoints(t, o, p.PID(), p.PID())
			first := distinct(all)
			points := first
			if !thorough() {
				points = testtarget.Some(t, first, 8)
			} else {
				points = slices.DeleteFunc(slices.Clone(all), func(at point) bool { // of words that nobody executes yet, one in 31
					return at.what == "PTRACE_POKEDATA" && at.section == enterSection && at.n%31 != 0 && !slices.Contains(first, at)
				})
			}
			before := restingHoldings(t, p)
			killed, repaired, runs := 0, 0, 0
			for _, at := range points {
				for _, after := range []bool{true, false} {
					if !after && (!thorough() || !slices.Contains(first, at)) {
						continue
					}
					runs++
					if killAt(t, o, p.PID(), at, after) {
						killed++
					}
					if sum := p.Command("sum"); !strings.HasPrefix(sum, "sum ok") {
						t.Fatalf("%v: the program says %q", at, sum)
					}
					if repairAll(t, p.PID()) {
						repaired++
					}
					restingHoldings(t, p).expectAs(t, before)
					if t.Failed() {
						t.Fatalf("killed at %v, after it %v", at, after)
					}
				}
			}
			expectWork(t, p)
			now := restingHoldings(t, p)
			now.resident = min(now.resident, before.resident) // which an older runtime's heap increases while there is enough
			now.expectNoMoreThan(t, before)
			t.Logf("%d points; killed at %d of %d, repaired %d times", len(all), killed, runs, repaired)
			if killed < runs*3/4 || repaired < killed/2 {
				t.Errorf("killed at %d points of %d, and %d repairs", killed, runs, repaired)
			}
		})
	}
}

// restingHoldings returns what a mixer has while it opens no files.
func restingHoldings(t *testing.T, p *testtarget.Process) holdings {
	t.Helper()
	p.Command("rest")
	defer p.Command("work")
	return holdingsOf(t, p.PID())
}

// killAt has an observer of a process killed at a point, and returns false when it did not come there.
func killAt(t *testing.T, o observers, pid int, at point, after bool) (killed bool) {
	t.Helper()
	p := pointer{seen: map[point]int{}}
	cmd, said := o.start(t, pid)
	here := -1
	status, err := inject.Run(cmd, func(c inject.Call) bool {
		if !c.After {
			if now, ok := p.next(c); ok && now == at {
				here = c.TID
				return after
			}
		}
		return !c.After || c.TID != here
	})
	line := said()
	if err != nil || !status.Signaled() && line != "ended: <nil>" {
		t.Fatalf("%v: the observer: %#x, %v, %s", at, status, err, line)
	}
	return status.Signaled()
}

// repairAll removes what is left in a process, and returns false when that is nothing.
func repairAll(t *testing.T, pid int) bool {
	t.Helper()
	process, err := goproc.Open(pid, goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	notes, err := inline.Repair(pid, process.SignalStacks)
	if err != nil {
		t.Fatal(err)
	}
	if more, err := inline.Look(pid); more != nil || err != nil {
		t.Fatalf("after a repair there is still %+v, %v", more, err)
	}
	return notes != nil
}

// TestInlineTargetKilledAtCall kills the program at the same calls: the observer ends, and says why in one line if at all.
func TestInlineTargetKilledAtCall(t *testing.T) {
	path := testtarget.Build(t, testtarget.Spec{Program: "mill"})
	targets := []*testtarget.Process{testtarget.Start(t, path), testtarget.Start(t, path)}
	o := observers{path: os.Args[0]}
	points := commonPoints(t, o, targets[0].PID(), targets[1].PID())
	if !thorough() {
		points = testtarget.Some(t, distinct(points), 8)
	}
	for _, target := range targets {
		target.Stop()
	}
	killed := 0
	for _, at := range points {
		target := testtarget.Start(t, path)
		p := pointer{seen: map[point]int{}}
		cmd, said := o.start(t, target.PID())
		before := killed
		status, err := inject.Run(cmd, func(c inject.Call) bool {
			if !c.After {
				if now, ok := p.next(c); ok && now == at {
					if err := unix.Kill(target.PID(), unix.SIGKILL); err != nil {
						t.Error(err)
					}
					killed++
				}
			}
			return true
		})
		line := said()
		if killed > before {
			target.Kill() // and waits for its end
		} else {
			target.Stop()
		}
		good := line == "ended: <nil>" || strings.HasPrefix(line, "ended: ") && strings.HasSuffix(line, "the process has exited") ||
			strings.HasPrefix(line, "ended: ") && strings.HasSuffix(line, "no such process")
		if err != nil || status.Signaled() || status.ExitStatus() != 0 || strings.Contains(line, "\n") || !good {
			t.Errorf("the program was killed at %v: %#x, %v, %s", at, status, err, line)
		}
	}
	t.Logf("%d programs killed at %d points", killed, len(points))
	if killed < len(points)*9/10 {
		t.Errorf("only %d of %d programs were killed", killed, len(points))
	}
}

// TestInlineOldRemains repairs what older engines have left when they were killed: code and data without notes, alone or with
// shared memory in which nothing was noted yet.
func TestInlineOldRemains(t *testing.T) {
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}), "1")
	expectWork(t, p)
	before := restingHoldings(t, p)
	for _, shared := range []bool{false, true} {
		leave := func(s *ptrace.Stopped) error {
			const page, size = 4096, 1 << 20
			anywhere := ptrace.Window{Lo: 1 << 16, Hi: 1 << 31}
			at, err := s.Gap(anywhere, 3*page)
			if err != nil {
				return err
			}
			if err := s.MapProgram(at, page, 2*page); err != nil || !shared {
				return err
			}
			if at, err = s.Gap(anywhere, size); err != nil {
				return err
			}
			m, err := s.MapShared(at, size, func([]byte) error { return nil })
			if err != nil {
				return err
			}
			return m.Close()
		}
		err := ptrace.ErrBusy
		for deadline := time.Now().Add(30 * time.Second); errors.Is(err, ptrace.ErrBusy) && time.Now().Before(deadline); {
			err = ptrace.Run(context.Background(), p.PID(), ptrace.Options{One: true}, leave)
		}
		if err != nil {
			t.Fatal(err)
		}
		if holdingsOf(t, p.PID()).foreign == before.foreign {
			t.Fatal("nothing was left")
		}
		if !repairAll(t, p.PID()) {
			t.Errorf("with shared memory %v: nothing was found", shared)
		}
		restingHoldings(t, p).expectAs(t, before)
	}
}
