package goproc

import "golang.org/x/sys/unix"

// threadRegs returns where a stopped thread is.
func threadRegs(tid int) (registers, error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return registers{}, err
	}
	return registers{pc: r.Rip, sp: r.Rsp, exact: true}, nil
}
