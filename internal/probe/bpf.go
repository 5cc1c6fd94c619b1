package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// capabilities are those that attaching eBPF programs requires (capabilities(7)). CAP_SYS_ADMIN includes both. Kernels before
// 5.8 have only that one.
var capabilities = []struct {
	name string
	bit  uint
}{
	{"CAP_BPF", unix.CAP_BPF},
	{"CAP_PERFMON", unix.CAP_PERFMON},
}

// CheckBPF returns an error that names the capabilities for eBPF programs that this process lacks. The kernel itself only
// returns EPERM. The error wraps ErrPermission.
func CheckBPF() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return nil // the kernel returns an error later
	}
	has := func(bit uint) bool { return data[bit/32].Effective>>(bit%32)&1 != 0 }
	if has(unix.CAP_SYS_ADMIN) {
		return nil
	}
	var missing []string
	for _, c := range capabilities {
		if !has(c.bit) {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s missing", ErrPermission, strings.Join(missing, " and "))
}

// NamespaceIDs are the IDs by which eBPF programs recognize the threads of a process.
type NamespaceIDs struct {
	PID      uint32 // in the PID namespace of this process
	Dev, Ino uint64 // of this process's PID namespace; 0 if it is the initial one
}

// initialPIDNamespace is the inode of the initial PID namespace (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialPIDNamespace = 0xEFFFFFFC

// IDsOf returns the IDs of a process.
func IDsOf(pid int) (NamespaceIDs, error) {
	ids := NamespaceIDs{PID: uint32(pid)}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return ids, nil // a kernel without PID namespaces
		}
		return ids, fmt.Errorf("the PID namespace of this process: %w", err)
	}
	if st.Ino != initialPIDNamespace {
		ids.Dev, ids.Ino = st.Dev, st.Ino
	}
	return ids, nil
}
