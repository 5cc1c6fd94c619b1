package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// LookAt finds out what /proc says of a process beside what package goproc knows.
func LookAt(pid int) *Target {
	t := &Target{PID: pid, Owner: -1}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return t
	}
	t.Tracer, _ = strconv.Atoi(statusField(status, "TracerPid")) // 0 for none, also when it is not said
	if t.Tracer != 0 {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", t.Tracer)) // for people only
		t.TracedBy = strings.TrimSpace(string(comm))
	}
	if uids := strings.Fields(statusField(status, "Uid")); len(uids) > 1 {
		if uid, err := strconv.Atoi(uids[1]); err == nil {
			t.Owner = uid
		}
	}
	t.Ancestor = descends(pid, os.Getpid())
	return t
}

// descends reports whether a process was started by another one, or by one that it had started.
func descends(pid, ancestor int) bool {
	const deepest = 1000 // a process tree that changes meanwhile could go round in circles
	for range deepest {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(statusField(status, "PPid"))
		if err != nil || pid <= 1 {
			return false
		}
		if pid == ancestor {
			return true
		}
	}
	return false
}

// WhyDenied explains why the kernel does not let this process read a target, and what to do about it. uprobe says that more
// is wanted than to read it, by that engine.
func (f Facts) WhyDenied(t *Target, uprobe bool) (why, remedy string) {
	switch {
	case f.PtraceScope == 3:
		return "kernel.yama.ptrace_scope is 3: no process may be read until the next boot",
			"reboot with kernel.yama.ptrace_scope set to 2 or less"
	case f.Caps.Has(unix.CAP_SYS_PTRACE) && f.ReadMemory != nil:
		return "a sandbox refuses process_vm_readv", "run Loupe outside of it"
	case f.Caps.Has(unix.CAP_SYS_PTRACE):
		return "it has more privileges than this Loupe, or a security module protects it",
			"run Loupe as root on the host; the audit log shows whether a security module denied access"
	case f.UID == 0:
		return "root lacks CAP_SYS_PTRACE here", "run on the host, or start the container with --cap-add=SYS_PTRACE --pid=host"
	case t.Owner >= 0 && t.Owner != f.UID:
		why = "it runs as " + userName(t.Owner) + ", which requires CAP_SYS_PTRACE"
		if uprobe && !f.mayTraceWithBPF() {
			return why + "; engine uprobe also requires CAP_BPF and CAP_PERFMON", "run with sudo"
		}
		return why, "run with sudo, or as that user"
	case f.PtraceScope == 1 && !t.Ancestor:
		return "kernel.yama.ptrace_scope is 1: only its parents may read it",
			"sudo loupe ..., or start it with loupe ... -- PROG, or sudo sysctl kernel.yama.ptrace_scope=0"
	case f.PtraceScope == 2:
		return "kernel.yama.ptrace_scope is 2: only CAP_SYS_PTRACE may read processes", "sudo loupe ..."
	case f.ReadMemory != nil:
		return "a sandbox refuses process_vm_readv", "run Loupe outside of it"
	}
	return "it has made itself unreadable, or has more privileges than you (set-user-ID, file capabilities)", "sudo loupe ..."
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return "user " + u.Username
	}
	return fmt.Sprintf("user %d", uid)
}

// Detach says what to do about a process that traces a target. uprobe says whether engine uprobe can be used instead.
func Detach(tracer string, uprobe bool) string {
	if uprobe {
		return "detach " + tracer + " first, or use --engine uprobe"
	}
	return "detach " + tracer + " first"
}

// target checks a target.
func (f Facts) target(t *Target) []checkup.Finding {
	if t.Err != nil {
		return append([]checkup.Finding{f.checkRefused(t)}, f.checkTracer(t)...)
	}
	i := t.Info
	checks := []checkup.Finding{
		{Name: "process", Status: checkup.OK, Found: processWords(t)},
		{Name: "Go", Status: checkup.OK, Found: fmt.Sprintf("%s, %s", i.GoVersion, i.Arch)},
		{Name: "executable", Status: checkup.OK, Found: executableWords(i)},
		{Name: "layout", Status: checkup.OK, Found: fmt.Sprintf("from %s, verified against the live process", i.Layout)},
		{Name: "goroutines", Status: checkup.OK, Found: fmt.Sprint(i.Goroutines)},
	}
	if i.Deleted {
		checks = append(checks, checkup.Finding{Name: "file", Status: checkup.OK, Found: i.Exe + " was removed or replaced after the start",
			Means: "Loupe reads the running executable"})
	}
	for _, w := range t.Warnings {
		checks = append(checks, checkup.Finding{Name: "note", Status: checkup.Warn, Found: w})
	}
	return slices.Concat(checks, f.checkTracer(t), t.checkInline(), t.checkBreakpoints())
}

// namedBreakpoints is how many breakpoints a check names.
const namedBreakpoints = 8

func (t *Target) checkBreakpoints() []checkup.Finding {
	if len(t.Breakpoints) == 0 {
		return nil
	}
	var names []string
	for _, b := range t.Breakpoints[:min(len(t.Breakpoints), namedBreakpoints)] {
		names = append(names, b.String())
	}
	found := "another tracer has breakpoints at " + strings.Join(names, ", ")
	if more := len(t.Breakpoints) - len(names); more > 0 {
		found += fmt.Sprintf(" and %d more", more)
	}
	return []checkup.Finding{{Name: "breakpoints", Status: checkup.Warn, Found: found,
		Means:  "engine inline cannot attach if a breakpoint is on an instruction that it must replace; snapshots and engine uprobe work",
		Remedy: "stop that tracer first: bpftrace, perf, a debugger or another user of uprobes (bpftool link, perf probe --list)"}}
}

// Inline is what an engine of trampolines has in a process.
type Inline struct {
	Loupe  int  // the process of the engine; 0 when it is unknown
	Alive  bool // it is at work
	Places int  // of the code that it has changed
	Memory bool // it has memory there: no other engine attaches
}

// words name the engine's process.
func (i *Inline) words() string {
	if i.Loupe == 0 {
		return "a Loupe"
	}
	return fmt.Sprintf("a Loupe (process %d)", i.Loupe)
}

// needFree is that no engine has code in the target.
func needFree(t *Target) need {
	i := t.Inline
	switch {
	case i == nil || !i.Memory:
		return need{met: true}
	case i.Alive:
		return need{lacked: i.words() + " observes the target with engine inline: stop it first"}
	}
	return need{lacked: fmt.Sprintf("%s was killed and left code in the target: loupe doctor %d --repair", i.words(), t.PID)}
}

func (t *Target) checkInline() []checkup.Finding {
	switch i := t.Inline; {
	case i == nil:
		return nil
	case i.Alive:
		return []checkup.Finding{{Name: "inline engine", Status: checkup.Warn, Found: fmt.Sprintf("%s observes it with engine inline, with code at %s", i.words(), english.Count(i.Places, "place")),
			Means: "live events are unavailable to others; snapshots work", Remedy: "stop that Loupe"}}
	case i.Memory:
		return []checkup.Finding{{Name: "inline engine", Status: checkup.Warn,
			Found:  fmt.Sprintf("%s was killed and left code at %s", i.words(), english.Count(i.Places, "place")),
			Means:  "the program runs correctly, a few nanoseconds slower at these places; live events are unavailable; snapshots work",
			Remedy: fmt.Sprintf("loupe doctor %d --repair", t.PID)}}
	default:
		return []checkup.Finding{{Name: "inline engine", Status: checkup.Warn, Found: "a Loupe was killed and left memory, a file descriptor, or bytes after the end of the code",
			Means: "the program runs correctly", Remedy: fmt.Sprintf("loupe doctor %d --repair", t.PID)}}
	}
}

// checkRefused tells why the target cannot be observed.
func (f Facts) checkRefused(t *Target) checkup.Finding {
	c := checkup.Finding{Name: "process", Status: checkup.Fail, Found: t.Err.Error(), Means: "the target cannot be observed"}
	switch {
	case errors.Is(t.Err, goproc.ErrUnreadable):
		c.Remedy = Remedy(t.Err)
	case errors.Is(t.Err, goproc.ErrPermission):
		c.Means, c.Remedy = f.WhyDenied(t, false)
	default:
		c.Remedy = Remedy(t.Err)
	}
	return c
}

// Remedy tells what to do when a target cannot be observed for a reason other than missing permission; empty when there
// is nothing to be done.
func Remedy(err error) string {
	switch {
	case errors.Is(err, goproc.ErrUnreadable):
		return "run with sudo, or with CAP_DAC_READ_SEARCH"
	case errors.Is(err, goproc.ErrNoProcess):
		return "loupe ps lists the Go processes here"
	case errors.Is(err, goproc.ErrExited):
		return "start it again, or let Loupe start it: loupe goroutines -- PROG ARGS"
	case errors.Is(err, goproc.ErrNotGo):
		return "loupe ps lists the Go processes here; this may be the shell or supervisor that started the program"
	case errors.Is(err, goproc.ErrLayout):
		return "its Go runtime differs from all released versions; report it with the output of loupe version and loupe doctor"
	case errors.Is(err, goproc.ErrUnsupported):
		return "Loupe supports programs built by the Go toolchain, 1.12 or later, for 64-bit machines"
	}
	return ""
}

func (f Facts) checkTracer(t *Target) []checkup.Finding {
	if t.Tracer == 0 {
		return nil
	}
	tracer := ptrace.TracerWords(t.Tracer, t.TracedBy)
	return []checkup.Finding{{Name: "tracer", Status: checkup.Warn, Found: tracer + " traces it",
		Means: "--pause and engine inline are unavailable; snapshots and engine uprobe work", Remedy: Detach(tracer, true)}}
}

func processWords(t *Target) string {
	s := fmt.Sprintf("%d, %s", t.PID, t.Info.User)
	if t.Info.Container != "" {
		s += ", container " + t.Info.Container[:min(len(t.Info.Container), 12)]
	}
	if t.Info.NSPID != 0 {
		s += fmt.Sprintf(", PID %d in it", t.Info.NSPID)
	}
	return s
}

func executableWords(i event.ProcessInfo) string {
	s := i.Exe
	if i.Module != "" {
		s += ", module " + i.Module
		if i.ModuleVersion != "" && i.ModuleVersion != "(devel)" {
			s += "@" + i.ModuleVersion
		}
	}
	symbols := map[string]string{"full": "with symbols and DWARF", "nodwarf": "without DWARF", "stripped": "stripped"}[i.Symbols]
	s += fmt.Sprintf(", %s, %s", i.Linkage, symbols)
	if i.CGO {
		s += ", with cgo"
	}
	return s
}
