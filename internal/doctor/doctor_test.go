package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
)

const allCaps = Caps(1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON | 1<<unix.CAP_SYS_ADMIN)

// healthy is a machine on which everything works, for root.
func healthy() Facts {
	return Facts{Arch: "amd64", Kernel: "6.12.0", Caps: allCaps, BTF: true, UprobePMU: true, UnprivilegedBPF: 2, PerfParanoid: 2,
		PtraceScope: -1, Lockdown: "none"}
}

func TestHealthyMachine(t *testing.T) {
	r := Examine(healthy(), nil)
	for _, c := range r.Machine {
		if c.Status != checkup.OK || c.Remedy != "" {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	for _, a := range r.Abilities {
		if !a.Available || len(a.Missing) > 0 {
			t.Errorf("%s: %+v", a.Name, a)
		}
	}
	if !r.Usable() {
		t.Error("not usable")
	}
}

// Every ailment changes one fact of a healthy machine: the check of that name tells, has a remedy, and the abilities
// named are lost, no other.
func TestAilments(t *testing.T) {
	noCaps := func(f *Facts) {
		f.Caps, f.UID, f.BPF, f.RingBuffer, f.UprobeMulti = 0, 1000, unix.EPERM, unix.EPERM, unix.EPERM
	}
	for _, test := range []struct {
		name   string
		change func(*Facts)
		check  string
		status checkup.Status
		lost   string
	}{
		{"foreign architecture", func(f *Facts) { f.Arch = "riscv64" }, "kernel", checkup.Fail, ""},
		{"no process_vm_readv", func(f *Facts) { f.ReadMemory = unix.EPERM }, "reading memory", checkup.Fail, "snapshot, snapshot of all, uprobe, inline, cpu"},
		{"no ptrace", func(f *Facts) { f.Ptrace = unix.EPERM }, "ptrace", checkup.Warn, "inline"},
		{"nobody may trace", func(f *Facts) { f.PtraceScope = 3 }, "Yama ptrace_scope", checkup.Fail, "snapshot, snapshot of all, uprobe, inline, cpu"},
		{"Yama 1", func(f *Facts) { noCaps(f); f.PtraceScope = 1 }, "Yama ptrace_scope", checkup.Warn, "snapshot, snapshot of all, uprobe, inline, cpu"},
		{"Yama 2", func(f *Facts) { noCaps(f); f.PtraceScope = 2 }, "Yama ptrace_scope", checkup.Warn, "snapshot, snapshot of all, uprobe, inline, cpu"},
		{"Yama 1, root", func(f *Facts) { f.PtraceScope = 1 }, "Yama ptrace_scope", checkup.OK, ""},
		{"ordinary user", noCaps, "capabilities", checkup.Warn, "snapshot of all, uprobe, cpu"},
		{"ordinary user, BPF", noCaps, "BPF", checkup.Warn, "snapshot of all, uprobe, cpu"},
		{"user namespace", func(f *Facts) { f.NestedUser = true; f.BPF = unix.EPERM }, "namespaces", checkup.Warn, "uprobe, cpu"},
		{"PID namespace", func(f *Facts) { f.NestedPID = true }, "namespaces", checkup.Warn, ""},
		{"hidepid", func(f *Facts) { noCaps(f); f.HidePID = "2" }, "/proc", checkup.Warn, "snapshot of all, uprobe, cpu"},
		{"hidepid, root", func(f *Facts) { f.HidePID = "2" }, "/proc", checkup.OK, ""},
		{"BPF filtered", func(f *Facts) { f.BPF = unix.EPERM }, "BPF", checkup.Warn, "uprobe, cpu"},
		{"no BPF", func(f *Facts) { f.BPF = ebpf.ErrNotSupported }, "BPF", checkup.Warn, "uprobe, cpu"},
		{"no uprobes", func(f *Facts) { f.UprobePMU = false }, "uprobes", checkup.Warn, "uprobe"},
		{"no perf", func(f *Facts) { f.UprobePMU, f.PerfParanoid = false, -1 }, "perf_event_paranoid", checkup.Warn, "uprobe"},
		{"no ring buffer", func(f *Facts) { f.RingBuffer = fmt.Errorf("x: %w", ebpf.ErrNotSupported) }, "BPF ring buffer", checkup.Warn, "uprobe, cpu"},
		{"no uprobe_multi", func(f *Facts) { f.UprobeMulti = fmt.Errorf("x: %w", ebpf.ErrNotSupported) }, "uprobe_multi", checkup.Warn, ""},
		{"no registers", func(f *Facts) { f.TaskRegs = fmt.Errorf("x: %w", ebpf.ErrNotSupported) }, "kernel", checkup.OK, "cpu"},
		{"no BTF", func(f *Facts) { f.BTF = false }, "BTF", checkup.Warn, "cpu"},
		{"lockdown", func(f *Facts) { f.Lockdown = "integrity" }, "lockdown", checkup.OK, ""},
		{"strict lockdown", func(f *Facts) { f.Lockdown = "confidentiality" }, "lockdown", checkup.Warn, ""},
		{"unprivileged BPF on", func(f *Facts) { f.UnprivilegedBPF = 0 }, "unprivileged_bpf_disabled", checkup.OK, ""},
		{"seccomp", func(f *Facts) { f.Seccomp = 2 }, "seccomp", checkup.OK, ""},
	} {
		f := healthy()
		test.change(&f)
		r := Examine(f, nil)
		i := slices.IndexFunc(r.Machine, func(c checkup.Finding) bool { return c.Name == test.check })
		if i < 0 {
			t.Errorf("%s: no check %q", test.name, test.check)
			continue
		}
		c := r.Machine[i]
		if c.Status != test.status {
			t.Errorf("%s: %+v, want %s", test.name, c, test.status)
		}
		if c.Status == checkup.Warn && (c.Means == "" && c.Remedy == "" || c.Remedy == "") {
			t.Errorf("%s: no remedy: %+v", test.name, c)
		}
		var lost []string
		for _, a := range r.Abilities {
			if !a.Available {
				lost = append(lost, a.Name)
			}
		}
		if got := strings.Join(lost, ", "); got != test.lost {
			t.Errorf("%s: abilities lost: %q, want %q", test.name, got, test.lost)
		}
		if usable := test.status != checkup.Fail; r.Usable() != usable {
			t.Errorf("%s: usable %v, want %v", test.name, r.Usable(), usable)
		}
	}
}

func TestTarget(t *testing.T) {
	good := Target{PID: 7, Owner: 0, Info: event.ProcessInfo{PID: 7, User: "www", Exe: "/bin/app", GoVersion: "go1.22.1", Arch: "amd64",
		Linkage: "static", Symbols: "stripped", Goroutines: 12, Layout: "table", Module: "example.com/app", ModuleVersion: "v1.0.0"}}
	for _, test := range []struct {
		name    string
		change  func(*Target)
		usable  bool
		lost    string
		mention string // in some check
	}{
		{"readable", func(*Target) {}, true, "", "module example.com/app@v1.0.0, static, stripped"},
		{"traced", func(t *Target) { t.Tracer = 99 }, true, "pause, inline", "process 99 first, or use --engine uprobe"},
		{"traced by", func(t *Target) { t.Tracer, t.TracedBy = 99, "strace" }, true, "pause, inline", "strace (process 99) traces it"},
		{"filtered", func(t *Target) { t.Refusal = fmt.Errorf("process 7: %w", ptrace.ErrSeccomp) }, true, "inline", "go1.22.1"},
		{"observed", func(t *Target) { t.Inline = &Inline{Loupe: 5, Alive: true, Places: 9, Memory: true} }, true, "uprobe, inline", "a Loupe (process 5) observes it"},
		{"left", func(t *Target) { t.Inline = &Inline{Loupe: 5, Places: 9, Memory: true} }, true, "uprobe, inline", "a Loupe (process 5) was killed and left code at 9 places"},
		{"remains", func(t *Target) { t.Inline = &Inline{} }, true, "", "a Loupe was killed and left memory"},
		{"executable", func(t *Target) { t.Err = fmt.Errorf("process 7: %w", goproc.ErrUnreadable) }, false,
			"snapshot, pause, uprobe, inline, cpu", "CAP_DAC_READ_SEARCH"},
		{"breakpoints", func(t *Target) { t.Breakpoints = []goproc.Breakpoint{{Func: "runtime.gopark", Offset: 4}} }, true, "", "runtime.gopark+0x4"},
		{"other architecture", func(t *Target) { t.Info.Arch = "arm64" }, true, "uprobe, inline, cpu", "arm64"},
		{"deleted", func(t *Target) { t.Info.Deleted = true }, true, "", "removed or replaced"},
		{"warned", func(t *Target) { t.Warnings = []string{"nearest layout"} }, true, "", "nearest layout"},
		{"not Go", func(t *Target) { t.Err = fmt.Errorf("process 7: %w", goproc.ErrNotGo) }, false,
			"snapshot, pause, uprobe, inline, cpu", "loupe ps lists"},
		{"denied", func(t *Target) { t.Err = fmt.Errorf("process 7: %w", goproc.ErrPermission) }, false,
			"snapshot, pause, uprobe, inline, cpu", "security module"},
	} {
		target := good
		test.change(&target)
		r := Examine(healthy(), &target)
		var lost []string
		for _, a := range r.Abilities {
			if !a.Available {
				lost = append(lost, a.Name)
			}
		}
		if r.Usable() != test.usable || strings.Join(lost, ", ") != test.lost {
			t.Errorf("%s: usable %v, abilities lost %v", test.name, r.Usable(), lost)
		}
		if !slices.ContainsFunc(r.Target, func(c checkup.Finding) bool {
			return strings.Contains(c.Found+c.Means+c.Remedy, test.mention)
		}) {
			t.Errorf("%s: no mention of %q in %+v", test.name, test.mention, r.Target)
		}
	}
}

func TestWhyDenied(t *testing.T) {
	user := Facts{UID: 1000, PtraceScope: -1}
	mine := Target{Owner: 1000}
	for _, test := range []struct {
		name   string
		facts  Facts
		target Target
		why    string
	}{
		{"another user's", user, Target{Owner: 0}, "runs as user root, which requires CAP_SYS_PTRACE"},
		{"Yama 1", Facts{UID: 1000, PtraceScope: 1}, mine, "ptrace_scope is 1"},
		{"Yama 1, own child", Facts{UID: 1000, PtraceScope: 1}, Target{Owner: 1000, Ancestor: true}, "unreadable"},
		{"Yama 2", Facts{UID: 1000, PtraceScope: 2}, mine, "ptrace_scope is 2"},
		{"Yama 3", Facts{Caps: allCaps, PtraceScope: 3}, mine, "ptrace_scope is 3"},
		{"set-user-ID", user, mine, "unreadable"},
		{"container", Facts{UID: 0, PtraceScope: -1}, mine, "root lacks"},
		{"sandbox", Facts{UID: 0, Caps: allCaps, PtraceScope: -1, ReadMemory: unix.EPERM}, mine, "sandbox"},
		{"security module", Facts{UID: 0, Caps: allCaps, PtraceScope: -1}, mine, "security module"},
	} {
		why, remedy := test.facts.WhyDenied(&test.target, false)
		if !strings.Contains(why, test.why) || remedy == "" {
			t.Errorf("%s: %q, %q", test.name, why, remedy)
		}
	}
}

func TestRemedies(t *testing.T) {
	for _, err := range []error{goproc.ErrNoProcess, goproc.ErrNotGo, goproc.ErrUnsupported, goproc.ErrLayout, goproc.ErrExited} {
		if Remedy(fmt.Errorf("process 1: %w", err)) == "" {
			t.Errorf("no remedy for %v", err)
		}
	}
	if r := Remedy(errors.New("other")); r != "" {
		t.Errorf("a remedy for nothing: %q", r)
	}
}

// TestGather holds the facts against what can be known of the machine that the test runs on.
func TestGather(t *testing.T) {
	f := Gather("/")
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		t.Fatal(err)
	}
	if want := unix.ByteSliceToString(uts.Release[:]); f.Kernel != want || f.UID != os.Geteuid() {
		t.Errorf("kernel %q, user %d; want %q, %d", f.Kernel, f.UID, want, os.Geteuid())
	}
	if f.ReadMemory != nil || f.Ptrace != nil {
		t.Errorf("this process cannot be read (%v) or ptrace is not there (%v)", f.ReadMemory, f.Ptrace)
	}
	if os.Geteuid() == 0 && f.Caps == 0 {
		t.Error("root without capabilities")
	}
	if f.mayTraceWithBPF() && !f.NestedUser && f.BPF != nil && !errors.Is(f.BPF, ebpf.ErrNotSupported) {
		t.Errorf("BPF: %v", f.BPF)
	}
}

// TestPtraceScope checks, for each content of the file ptrace_scope, what the abilities say is missing.
func TestPtraceScope(t *testing.T) {
	for _, test := range []struct {
		file string
		caps Caps
		want string // in what is missing for the user's own processes; empty if nothing is
	}{
		{"", 0, ""},
		{"0\n", 0, ""},
		{"1\n", 0, "ptrace_scope is 1: only programs started by Loupe itself (-- PROG)"},
		{"1\n", allCaps, ""},
		{"2\n", 0, "ptrace_scope is 2: CAP_SYS_PTRACE, even for programs started by Loupe itself: sudo"},
		{"2\n", allCaps, ""},
		{"3\n", 0, "ptrace_scope is 3: no process can be observed; reboot"},
		{"3\n", allCaps, "ptrace_scope is 3: no process can be observed; reboot"},
	} {
		root := t.TempDir()
		write(t, root, "proc/self/status", fmt.Sprintf("CapEff:\t%016x\n", uint64(test.caps)))
		if test.file != "" {
			write(t, root, "proc/sys/kernel/yama/ptrace_scope", test.file)
		}
		f := healthy()
		f.readSettings(root)
		for _, a := range Examine(f, nil).Abilities {
			missing := strings.Join(a.Missing, "; ")
			about := a.Name != "snapshot of all" || f.PtraceScope == 3 // which requires CAP_SYS_PTRACE in any case
			if about && test.want == "" && strings.Contains(missing, "ptrace_scope") || about && !strings.Contains(missing, test.want) {
				t.Errorf("ptrace_scope %q, capabilities %#x: %s lacks %q, want %q", test.file, test.caps, a.Name, missing, test.want)
			}
			if a.Name != "uprobe" && strings.Contains(test.want, "nobody") && strings.Contains(missing, "sudo") {
				t.Errorf("ptrace_scope %q: %s recommends sudo: %q", test.file, a.Name, missing)
			}
		}
	}
}

// write writes a file below a directory that the test uses as the root directory.
func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestReadSettings(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"proc/sys/kernel/yama/ptrace_scope":               "1\n",
		"proc/sys/kernel/unprivileged_bpf_disabled":       "2\n",
		"sys/kernel/security/lockdown":                    "none [integrity] confidentiality\n",
		"sys/kernel/btf/vmlinux":                          "",
		"proc/self/status":                                "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\nCapInh:\t0000000000000000\nCapEff:\t0000000000080000\n",
		"proc/self/mounts":                                "proc /proc proc rw,nosuid,hidepid=invisible,gid=4 0 0\nbad line\n",
		"sys/bus/event_source/devices/uprobe/type":        "9\n",
		"proc/sys/kernel/perf_event_paranoid":             "not a number\n",
		"proc/sys/kernel/yama/something_else/not_a_thing": "",
	} {
		write(t, root, name, content)
	}
	var f Facts
	f.readSettings(root)
	want := Facts{PtraceScope: 1, UnprivilegedBPF: 2, PerfParanoid: -1, Lockdown: "integrity", BTF: true, UprobePMU: true, Seccomp: 2,
		Caps: 1 << unix.CAP_SYS_PTRACE, HidePID: "invisible"}
	if f != want {
		t.Errorf("settings %+v, want %+v", f, want)
	}
	var none Facts
	none.readSettings(t.TempDir())
	if want := (Facts{PtraceScope: -1, UnprivilegedBPF: -1, PerfParanoid: -1}); none != want {
		t.Errorf("settings of nothing: %+v", none)
	}
}

func TestLookAt(t *testing.T) {
	child := testcmd.Command(t, "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		child.Process.Kill()
		child.Wait()
	}()
	target := LookAt(child.Process.Pid)
	if target.Owner != os.Geteuid() || target.Tracer != 0 || !target.Ancestor {
		t.Errorf("own child: %+v", target)
	}
	if parent := LookAt(os.Getppid()); parent.Ancestor {
		t.Errorf("the parent is taken for a child: %+v", parent)
	}
	if gone := LookAt(1 << 30); gone.Owner != -1 {
		t.Errorf("no process: %+v", gone)
	}
}
