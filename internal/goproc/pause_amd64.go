package goproc

import "golang.org/x/sys/unix"

// threadRegs returns where a stopped thread is.
func threadRegs(tid int) (registers, error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return registers{}, err
	}
	// syscall.rawVforkSyscall keeps its return address in R12 while the child uses the stack.
	return registers{pc: r.Rip, sp: r.Rsp, lr: r.R12, exact: true}, nil
}
