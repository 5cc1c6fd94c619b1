package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
)

// The capabilities that observing needs, in the order they are shown.
var observerCaps = []struct {
	bit  int
	name string
}{
	{unix.CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	{unix.CAP_BPF, "CAP_BPF"},
	{unix.CAP_PERFMON, "CAP_PERFMON"},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
}

// machine checks the machine.
func (f Facts) machine() []checkup.Finding {
	return []checkup.Finding{
		f.checkArch(), f.checkMemory(), f.checkPtrace(), f.checkPtraceScope(), f.checkCaps(), f.checkSeccomp(),
		f.checkNamespaces(), f.checkHidePID(), f.checkBPF(), f.checkUnprivilegedBPF(), f.checkPerf(), f.checkUprobes(),
		f.checkUprobeMulti(), f.checkRingBuffer(), f.checkBTF(), f.checkLockdown(),
	}
}

func (f Facts) checkArch() checkup.Finding {
	c := checkup.Finding{Name: "kernel", Status: checkup.OK, Found: fmt.Sprintf("Linux %s on %s", f.Kernel, f.Arch)}
	if f.Arch != "amd64" && f.Arch != "arm64" {
		c.Status, c.Means = checkup.Fail, "Loupe supports amd64 and arm64"
	}
	return c
}

func (f Facts) checkMemory() checkup.Finding {
	c := checkup.Finding{Name: "reading memory", Status: checkup.OK, Found: "process_vm_readv works"}
	if f.ReadMemory != nil {
		c.Status, c.Found = checkup.Fail, fmt.Sprintf("process_vm_readv: %v", f.ReadMemory)
		c.Means = "no process can be read"
		c.Remedy = "run Loupe outside of the sandbox, or allow the process_vm_readv system call in its seccomp profile " +
			"(Docker: --cap-add=SYS_PTRACE)"
	}
	return c
}

func (f Facts) checkPtrace() checkup.Finding {
	c := checkup.Finding{Name: "ptrace", Status: checkup.OK, Found: "available"}
	if f.Ptrace != nil {
		c.Status, c.Found = checkup.Warn, fmt.Sprintf("refused: %v", f.Ptrace)
		c.Means = "no --pause, no inline engine"
		c.Remedy = "allow the ptrace system call in the sandbox's seccomp profile (Docker: --cap-add=SYS_PTRACE)"
	}
	return c
}

func (f Facts) checkPtraceScope() checkup.Finding {
	c := checkup.Finding{Name: "Yama ptrace_scope", Status: checkup.OK, Found: fmt.Sprint(f.PtraceScope)}
	switch {
	case f.PtraceScope < 0:
		c.Found = "no Yama: your own processes can be read"
	case f.PtraceScope == 0:
		c.Found = "0: your own processes can be read"
	case f.PtraceScope == 3:
		c.Status, c.Means = checkup.Fail, "no process can be read or traced, whatever the privileges, until the next boot"
		c.Remedy = "reboot with kernel.yama.ptrace_scope set to 2 or less (/etc/sysctl.d)"
	case f.Caps.Has(unix.CAP_SYS_PTRACE):
		c.Found += ": requires CAP_SYS_PTRACE, which Loupe has"
	case f.PtraceScope == 1:
		c.Status, c.Means = checkup.Warn, "without CAP_SYS_PTRACE only programs that Loupe itself started can be read"
		c.Remedy = "sudo loupe ..., or start the program with loupe ... -- PROG, or sudo sysctl kernel.yama.ptrace_scope=0"
	default:
		c.Status, c.Means = checkup.Warn, "without CAP_SYS_PTRACE no process can be read"
		c.Remedy = "sudo loupe ..., or sudo sysctl kernel.yama.ptrace_scope=0"
	}
	return c
}

func (f Facts) checkCaps() checkup.Finding {
	var have, lack []string
	for _, cap := range observerCaps {
		if f.Caps.Has(cap.bit) {
			have = append(have, cap.name)
		} else {
			lack = append(lack, cap.name)
		}
	}
	c := checkup.Finding{Name: "capabilities", Status: checkup.OK, Found: "none of " + strings.Join(lack, ", ")}
	if len(have) > 0 {
		c.Found = strings.Join(have, ", ")
	}
	var means []string
	if !f.Caps.Has(unix.CAP_SYS_PTRACE) {
		means = append(means, "processes of other users cannot be read (CAP_SYS_PTRACE)")
	}
	if !f.mayTraceWithBPF() {
		means = append(means, "no uprobe engine (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN)")
	}
	if len(means) > 0 {
		c.Status, c.Means = checkup.Warn, strings.Join(means, "; ")
		c.Remedy = "sudo loupe ..., or run once: sudo setcap cap_sys_ptrace,cap_bpf,cap_perfmon+ep $(command -v loupe)"
	}
	return c
}

// mayTraceWithBPF reports whether this process may run BPF programs on uprobes, by its capabilities.
func (f Facts) mayTraceWithBPF() bool {
	return f.Caps.Has(unix.CAP_SYS_ADMIN) || f.Caps.Has(unix.CAP_BPF) && f.Caps.Has(unix.CAP_PERFMON)
}

func (f Facts) checkSeccomp() checkup.Finding {
	c := checkup.Finding{Name: "seccomp", Status: checkup.OK, Found: "no filter"}
	if f.Seccomp != 0 {
		c.Found = fmt.Sprintf("mode %d", f.Seccomp)
		c.Means = "a sandbox may refuse system calls; the checks here show which"
	}
	return c
}

func (f Facts) checkNamespaces() checkup.Finding {
	c := checkup.Finding{Name: "namespaces", Status: checkup.OK, Found: "those of the host"}
	var found, means []string
	if f.NestedPID {
		found = append(found, "PID namespace of a container")
		means = append(means, "processes outside of it are not visible")
	}
	if f.NestedUser {
		found = append(found, "user namespace of a container")
		means = append(means, "capabilities in it do not allow BPF")
	}
	if len(found) > 0 {
		c.Status, c.Found, c.Means = checkup.Warn, strings.Join(found, ", "), strings.Join(means, "; ")
		c.Remedy = "run Loupe on the host, or in a container with --pid=host (Kubernetes: hostPID or an ephemeral container " +
			"that targets the pod)"
	}
	return c
}

func (f Facts) checkHidePID() checkup.Finding {
	c := checkup.Finding{Name: "/proc", Status: checkup.OK, Found: "shows the processes of all users"}
	if f.HidePID != "" {
		c.Found = "mounted with hidepid=" + f.HidePID
		if !f.Caps.Has(unix.CAP_SYS_PTRACE) {
			c.Status, c.Means, c.Remedy = checkup.Warn, "processes of other users are not visible", "sudo loupe ..."
		}
	}
	return c
}

func (f Facts) checkBPF() checkup.Finding {
	c := checkup.Finding{Name: "BPF", Status: checkup.OK, Found: "programs can be loaded"}
	if f.BPF != nil {
		c.Status, c.Found, c.Means = checkup.Warn, brief(f.BPF), "no uprobe engine"
		c.Remedy = f.bpfRemedy()
	}
	return c
}

// bpfRemedy tells what is needed before BPF works.
func (f Facts) bpfRemedy() string {
	switch {
	case errors.Is(f.BPF, ebpf.ErrNotSupported):
		return "a kernel with CONFIG_BPF_SYSCALL and CONFIG_UPROBE_EVENTS"
	case f.NestedUser:
		return "run Loupe on the host: BPF is not permitted in a user namespace"
	case !f.mayTraceWithBPF():
		return "sudo loupe ..., or give it CAP_BPF and CAP_PERFMON"
	default:
		return "allow the bpf system call in the sandbox's seccomp or LSM profile"
	}
}

func (f Facts) checkUnprivilegedBPF() checkup.Finding {
	c := checkup.Finding{Name: "unprivileged_bpf_disabled", Status: checkup.OK, Found: fmt.Sprint(f.UnprivilegedBPF)}
	switch f.UnprivilegedBPF {
	case -1:
		c.Found = "no such setting"
	case 0:
		c.Found = "0: permitted for all users, but uprobes require CAP_PERFMON"
	default:
		c.Found += ": requires CAP_BPF"
		if f.Caps.Has(unix.CAP_BPF) || f.Caps.Has(unix.CAP_SYS_ADMIN) {
			c.Found += ", which Loupe has"
		}
	}
	return c
}

func (f Facts) checkPerf() checkup.Finding {
	c := checkup.Finding{Name: "perf_event_paranoid", Status: checkup.OK, Found: fmt.Sprint(f.PerfParanoid)}
	switch {
	case f.PerfParanoid < 0 && !f.UprobePMU:
		c.Status, c.Found = checkup.Warn, "no perf events"
		c.Means, c.Remedy = "no uprobe engine", "a kernel with CONFIG_PERF_EVENTS"
	case f.PerfParanoid < 0:
		c.Found = "no such setting"
	case f.Caps.Has(unix.CAP_PERFMON) || f.Caps.Has(unix.CAP_SYS_ADMIN):
		c.Found += ": CAP_PERFMON overrides it"
	default:
		c.Found += ": uprobes require CAP_PERFMON at any setting"
	}
	return c
}

func (f Facts) checkUprobes() checkup.Finding {
	c := checkup.Finding{Name: "uprobes", Status: checkup.OK, Found: "available"}
	if !f.UprobePMU {
		c.Status, c.Found = checkup.Warn, "not found in /sys/bus/event_source/devices"
		c.Means, c.Remedy = "no uprobe engine", "a kernel with CONFIG_UPROBE_EVENTS (4.17 or later), and /sys mounted"
	}
	return c
}

func (f Facts) checkUprobeMulti() checkup.Finding {
	c := checkup.Finding{Name: "uprobe_multi", Status: checkup.OK, Found: "available"}
	switch {
	case f.UprobeMulti == nil:
	case errors.Is(f.UprobeMulti, ebpf.ErrNotSupported):
		c.Status, c.Found = checkup.Warn, "not supported by this kernel"
		c.Means, c.Remedy = "attaching many probes takes longer", fmt.Sprintf("Linux %v or later", uprobe.MultiKernel)
	default:
		c.Status, c.Found, c.Remedy = checkup.Warn, "check failed: "+brief(f.UprobeMulti), f.bpfRemedy()
	}
	return c
}

func (f Facts) checkRingBuffer() checkup.Finding {
	c := checkup.Finding{Name: "BPF ring buffer", Status: checkup.OK, Found: "available"}
	switch {
	case f.RingBuffer == nil:
	case errors.Is(f.RingBuffer, ebpf.ErrNotSupported):
		c.Status, c.Found, c.Means, c.Remedy = checkup.Warn, "not supported by this kernel", "no uprobe engine", "Linux 5.8 or later"
	default:
		c.Status, c.Found, c.Remedy = checkup.Warn, "check failed: "+brief(f.RingBuffer), f.bpfRemedy()
	}
	return c
}

func (f Facts) checkBTF() checkup.Finding {
	c := checkup.Finding{Name: "BTF", Status: checkup.OK, Found: "/sys/kernel/btf/vmlinux"}
	if !f.BTF {
		c.Status, c.Found = checkup.Warn, "not provided by this kernel"
		c.Means, c.Remedy = "BPF programs cannot adapt to this kernel", "a kernel with CONFIG_DEBUG_INFO_BTF"
	}
	return c
}

func (f Facts) checkLockdown() checkup.Finding {
	c := checkup.Finding{Name: "lockdown", Status: checkup.OK, Found: f.Lockdown}
	switch f.Lockdown {
	case "":
		c.Found = "not in this kernel, or not visible"
	case "confidentiality":
		c.Status, c.Means = checkup.Warn, "BPF programs cannot read kernel memory"
		c.Remedy = "reboot with lockdown set to integrity or none, if that is acceptable (often enforced by Secure Boot)"
	}
	return c
}

// brief shortens an error to what matters to a reader of the check-up.
func brief(err error) string {
	switch {
	case errors.Is(err, ebpf.ErrNotSupported):
		return "not supported by this kernel"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "not permitted"
	case errors.Is(err, unix.ENOSYS):
		return "no such system call"
	}
	return err.Error()
}
