package ptrace

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// aCall is a system call with its arguments, as seen by a seccomp filter.
type aCall struct {
	nr   uint64
	args [6]uint64
	name string // for error messages; may be empty
}

func (c aCall) String() string { return cmp.Or(c.name, fmt.Sprintf("system call %d", c.nr)) }

// mappingCalls are the calls that map and unmap memory in a process. Addresses and descriptors are omitted.
var mappingCalls = []aCall{
	{unix.SYS_MEMFD_CREATE, [6]uint64{0, unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING}, "memfd_create"},
	{unix.SYS_MMAP, [6]uint64{0, 1 << 12, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_FIXED_NOREPLACE}, "mmap"},
	{unix.SYS_MMAP, [6]uint64{0, 1 << 12, unix.PROT_READ | unix.PROT_EXEC, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE, noFD}, "mmap with PROT_EXEC"},
	{unix.SYS_MMAP, [6]uint64{0, 1 << 12, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED, noFD}, "mmap"},
	{unix.SYS_PRCTL, [6]uint64{unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME}, "prctl"},
	{unix.SYS_MADVISE, [6]uint64{0, 1 << 12, unix.MADV_WIPEONFORK}, "madvise"},
	{unix.SYS_MUNMAP, [6]uint64{0, 1 << 12}, "munmap"},
	{unix.SYS_CLOSE, [6]uint64{}, "close"},
}

// readFilters returns the seccomp filters of a stopped thread. It requires the same privilege as suspending them.
func readFilters(tid int) ([]*bpf.VM, error) {
	var filters []*bpf.VM
	for {
		index := uintptr(len(filters))
		n, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(tid), index, 0, 0, 0)
		if errno == unix.ENOENT {
			return filters, nil
		}
		if errno != 0 || n == 0 {
			return nil, fmt.Errorf("reading its seccomp filter: %w", errno)
		}
		code := make([]bpf.RawInstruction, n) // laid out as struct sock_filter
		if err := requestAt(unix.PTRACE_SECCOMP_GET_FILTER, tid, index, unsafe.Pointer(&code[0])); err != nil {
			return nil, fmt.Errorf("reading its seccomp filter: %w", err)
		}
		instructions, ok := bpf.Disassemble(code)
		if !ok {
			return nil, errors.New("its seccomp filter has unknown instructions")
		}
		filter, err := bpf.NewVM(instructions)
		if err != nil {
			return nil, fmt.Errorf("its seccomp filter: %w", err)
		}
		filters = append(filters, filter)
	}
}

// survives reports whether a thread can make a call while these filters are in force without being killed. The call may
// fail.
func survives(filters []*bpf.VM, c aCall) bool {
	// struct seccomp_data. bpf.VM loads words in the byte order of the network.
	words := []uint32{uint32(c.nr), auditArch, 0, 0}
	for _, a := range c.args {
		words = append(words, uint32(a), uint32(a>>32))
	}
	var data []byte
	for _, w := range words {
		data = binary.BigEndian.AppendUint32(data, w)
	}
	for _, f := range filters {
		result, err := f.Run(data)
		if err != nil {
			return false
		}
		switch uint32(result) & unix.SECCOMP_RET_ACTION_FULL {
		case unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_LOG, unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_TRACE: // without its tracer, ENOSYS
		default:
			return false
		}
	}
	return true
}

// checkCalls returns an error for calls for which a thread's filters kill the process. The filters are suspended, but
// they are in force again as soon as this process is killed, and the thread may be about to make the call at that
// moment.
func (s *Stopped) checkCalls(t *Thread, calls ...aCall) error {
	for _, c := range calls {
		if !survives(t.filters, c) {
			return fmt.Errorf("process %d: %w: the filter would kill the target if Loupe were killed during %v",
				s.pid, ErrSeccomp, c)
		}
	}
	return nil
}
