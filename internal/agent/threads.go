package agent

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onAllThreads makes a system call on all threads. It is unsupported in programs with cgo: the agent is built without.
func onAllThreads(nr, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(nr, a1, a2, a3, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// setCapabilities sets the capabilities of all threads.
func setCapabilities(header *unix.CapUserHeader, data *[2]unix.CapUserData) error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
