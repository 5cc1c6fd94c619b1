package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/perf"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
)

// Facts is what was found out about this machine and about the rights of this process on it.
type Facts struct {
	Arch   string // GOARCH
	Kernel string // release, "6.1.0-18-amd64"
	UID    int    // effective
	Caps   Caps   // effective

	ReadMemory error // reading memory by process_vm_readv, tried on this process itself
	Ptrace     error // whether ptrace exists at all; nil when only the target decides
	Seccomp    int   // mode of this process: 0 none, 1 strict, 2 filter

	BTF         bool  // /sys/kernel/btf/vmlinux
	BPF         error // loading a BPF program of the kind uprobes run
	RingBuffer  error // making a BPF ring buffer
	UprobeMulti error // attaching many uprobes at once; wraps ebpf.ErrNotSupported where the kernel cannot do so for one process
	PerfEvents  bool  // perf events of the user's own threads, which CPU profiles use without BPF
	TaskRegs    error // reading the registers of a thread in user mode from a BPF program on a perf event
	UprobePMU   bool  // the kernel has uprobes

	UnprivilegedBPF int    // kernel.unprivileged_bpf_disabled; -1 when there is no such setting
	PerfParanoid    int    // kernel.perf_event_paranoid; -1 when there is no such setting
	PtraceScope     int    // kernel.yama.ptrace_scope; -1 without Yama
	Lockdown        string // "none", "integrity", "confidentiality"; empty when the kernel has no lockdown

	NestedPID  bool   // this process is in a PID namespace below the machine's
	NestedUser bool   // likewise for user namespaces: capabilities do not reach the kernel's own objects
	HidePID    string // the hidepid option that /proc is mounted with; empty without
}

// Caps is a set of capabilities, as the bits of CapEff in /proc/PID/status.
type Caps uint64

// Has reports whether a capability (unix.CAP_...) is in the set.
func (c Caps) Has(capability int) bool { return c&(1<<capability) != 0 }

// The inode numbers of the namespaces that the machine boots with, from include/linux/proc_ns.h.
const (
	initialUserNamespace = 0xeffffffd
	initialPIDNamespace  = 0xeffffffc
)

// Gather finds all facts. It looks at files below root, which is "/" save in tests, and tries harmless system calls.
func Gather(root string) Facts {
	f := GatherAccess(root)
	f.BPF = features.HaveProgramType(ebpf.Kprobe)
	f.RingBuffer = features.HaveMapType(ebpf.RingBuf)
	f.UprobeMulti = uprobe.MultiUsable()
	f.PerfEvents = perf.Permitted() == nil
	f.TaskRegs = features.HaveProgramHelper(ebpf.PerfEvent, asm.FnTaskPtRegs)
	return f
}

// GatherAccess finds the facts that decide which processes can be read, and leaves BPF alone.
func GatherAccess(root string) Facts {
	f := Facts{Arch: runtime.GOARCH, UID: os.Geteuid()}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		f.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	f.readSettings(root)
	f.ReadMemory = tryReadMemory()
	f.Ptrace = tryPtrace()
	f.NestedPID = nested("/proc/self/ns/pid", initialPIDNamespace)
	f.NestedUser = nested("/proc/self/ns/user", initialUserNamespace)
	return f
}

// readSettings reads what the kernel says in files.
func (f *Facts) readSettings(root string) {
	path := func(name string) string { return filepath.Join(root, name) }
	exists := func(name string) bool { _, err := os.Stat(path(name)); return err == nil }
	f.BTF = exists("sys/kernel/btf/vmlinux")
	f.UprobePMU = exists("sys/bus/event_source/devices/uprobe/type")
	f.UnprivilegedBPF = readInt(path("proc/sys/kernel/unprivileged_bpf_disabled"))
	f.PerfParanoid = readInt(path("proc/sys/kernel/perf_event_paranoid"))
	f.PtraceScope = readInt(path("proc/sys/kernel/yama/ptrace_scope"))
	if b, err := os.ReadFile(path("sys/kernel/security/lockdown")); err == nil {
		f.Lockdown = chosen(string(b))
	}
	if b, err := os.ReadFile(path("proc/self/status")); err == nil {
		bits, err := strconv.ParseUint(statusField(b, "CapEff"), 16, 64)
		if err == nil {
			f.Caps = Caps(bits)
		}
		f.Seccomp, _ = strconv.Atoi(statusField(b, "Seccomp")) // absent in kernels without seccomp, which is mode 0
	}
	if b, err := os.ReadFile(path("proc/self/mounts")); err == nil {
		f.HidePID = hidePID(string(b))
	}
}

// readInt reads a setting; -1 when it is not there.
func readInt(path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return n
}

// chosen returns the word in brackets: "none [integrity] confidentiality" -> "integrity".
func chosen(s string) string {
	_, s, _ = strings.Cut(s, "[")
	s, _, _ = strings.Cut(s, "]")
	return s
}

// statusField returns a line of a /proc/PID/status file by its name.
func statusField(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if v, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// hidePID returns the hidepid option of the mount at /proc.
func hidePID(mounts string) string {
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != "/proc" {
			continue
		}
		for option := range strings.SplitSeq(f[3], ",") {
			if v, ok := strings.CutPrefix(option, "hidepid="); ok && v != "0" && v != "off" {
				return v
			}
		}
	}
	return ""
}

func nested(path string, initial uint64) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Ino != initial
}

// tryReadMemory reads a byte of this process's code the way it would be read in another process.
func tryReadMemory() error {
	var to [1]byte
	local := []unix.Iovec{{Base: &to[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: reflect.ValueOf(tryReadMemory).Pointer(), Len: 1}}
	_, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0)
	return err
}

// tryPtrace asks ptrace about a process that cannot exist: only a system call filter or a kernel without ptrace says
// anything but "no such process".
func tryPtrace() error {
	if err := unix.PtraceDetach(0); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}
