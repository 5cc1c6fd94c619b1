package doctor

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// need is one requirement of an ability.
type need struct {
	met    bool
	lacked string // what is missing and what to do about it, when it is not met
}

// abilities tells what can be done on this machine, or to the target when there is one.
func (f Facts) abilities(t *Target) []checkup.Ability {
	memory := need{f.ReadMemory == nil, "reading other processes' memory is refused: see \"reading memory\""}
	with := func(name, does string, needs ...need) checkup.Ability {
		return ability(name, does, append([]need{memory}, needs...))
	}
	if t != nil {
		readable, sameArch, untraced := f.needReadable(t), f.needSameArch(t), needUntraced(t)
		return []checkup.Ability{
			with(checkup.Snapshot, "goroutines and profiles, without stopping the program", readable),
			with(checkup.Pause, "--pause: goroutines and profiles of the stopped program", f.needPtrace(), readable, untraced),
			with(checkup.Uprobe, "live events with eBPF (--engine uprobe)", append(f.uprobeNeeds(), readable, sameArch, needFree(t))...),
			with(checkup.Inline, "live events without eBPF (--engine inline)", f.needPtrace(), readable, untraced, sameArch, f.needRoom(t), needFree(t)),
			with(checkup.CPU, "CPU profiles (profile --type cpu)", append(f.cpuNeeds(), readable, sameArch)...),
		}
	}
	return []checkup.Ability{
		with(checkup.Snapshot, "goroutines and profiles of your own processes", f.needOwn()),
		with(checkup.SnapshotAll, "goroutines and profiles of all users' processes", f.needAll()),
		with(checkup.Uprobe, "live events with eBPF (--engine uprobe)", append(f.uprobeNeeds(), f.needOwn())...),
		with(checkup.Inline, "live events without eBPF (--engine inline)", f.needPtrace(), f.needOwn()),
		with(checkup.CPU, "CPU profiles (profile --type cpu)", append(f.cpuNeeds(), f.needOwn())...),
	}
}

func ability(name, does string, needs []need) checkup.Ability {
	a := checkup.Ability{Name: name, Does: does, Available: true}
	for _, n := range needs {
		if !n.met {
			a.Available = false
			a.Missing = append(a.Missing, n.lacked)
		}
	}
	return a
}

// needOwn is the right to read and trace the user's own processes.
func (f Facts) needOwn() need {
	privileged := f.Caps.Has(unix.CAP_SYS_PTRACE)
	switch f.PtraceScope {
	case 1:
		return need{privileged, "Yama ptrace_scope is 1: only programs started by Loupe itself (-- PROG), or with sudo"}
	case 2:
		return need{privileged, "Yama ptrace_scope is 2: CAP_SYS_PTRACE, even for programs started by Loupe itself: sudo loupe ..."}
	case 3:
		return need{false, "Yama ptrace_scope is 3: no process can be observed; reboot with it set to 2 or less"}
	}
	return need{met: true}
}

// needAll is the right to read and trace everybody's processes.
func (f Facts) needAll() need {
	if f.PtraceScope == 3 {
		return f.needOwn()
	}
	return need{f.Caps.Has(unix.CAP_SYS_PTRACE), "CAP_SYS_PTRACE: sudo loupe ..."}
}

func (f Facts) needPtrace() need {
	return need{f.Ptrace == nil, "the ptrace system call is refused: see \"ptrace\""}
}

func (f Facts) needReadable(t *Target) need {
	return need{t.Err == nil, "the target cannot be read: see above"}
}

func (f Facts) needSameArch(t *Target) need {
	return need{t.Err != nil || t.Info.Arch == f.Arch, fmt.Sprintf("a target for this machine's architecture, %s", f.Arch)}
}

// needRoom is that engine inline can map memory in the target.
func (f Facts) needRoom(t *Target) need {
	if t.Refusal == nil {
		return need{met: true}
	}
	remedy := "use --engine uprobe"
	if errors.Is(t.Refusal, ptrace.ErrSeccomp) && !f.Caps.Has(unix.CAP_SYS_ADMIN) {
		remedy = "run with sudo, or " + remedy
	}
	return need{lacked: fmt.Sprintf("%v; %s", t.Refusal, remedy)}
}

// needUntraced is that nobody traces the target: the kernel lets one process do so at a time.
func needUntraced(t *Target) need {
	tracer := ptrace.TracerWords(t.Tracer, t.TracedBy)
	return need{t.Tracer == 0, tracer + " already traces the target: " + Detach(tracer, false)}
}

// uprobeNeeds are the requirements of the uprobe engine on the machine.
func (f Facts) uprobeNeeds() []need {
	return append(f.bpfNeeds(), need{f.UprobePMU, "a kernel with uprobes"})
}

// cpuNeeds are the requirements of CPU profiles, without those of the target.
func (f Facts) cpuNeeds() []need {
	if f.PerfEvents {
		return nil // BPF is used where it is permitted
	}
	return append(f.bpfNeeds(), need{!errors.Is(f.TaskRegs, ebpf.ErrNotSupported), "Linux 5.15 or later"}, need{f.BTF, "a kernel with BTF (CONFIG_DEBUG_INFO_BTF)"})
}

// bpfNeeds are the requirements of all eBPF programs that observe a process.
func (f Facts) bpfNeeds() []need {
	return []need{
		{f.mayTraceWithBPF(), "CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN: sudo loupe ..."},
		{!f.NestedUser, "the initial user namespace: run on the host"},
		{!errors.Is(f.RingBuffer, ebpf.ErrNotSupported), "a kernel with BPF ring buffers (5.8)"},
		{f.BPF == nil || !f.mayTraceWithBPF(), "loading BPF programs: see \"BPF\""},
	}
}
