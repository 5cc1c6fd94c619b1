package goproc

import "golang.org/x/sys/unix"

// threadRegs returns where a stopped thread is.
func threadRegs(tid int) (registers, error) {
	var r unix.PtraceRegsArm64
	if err := unix.PtraceGetRegSetArm64(tid, prStatus, &r); err != nil {
		return registers{}, err
	}
	const linkRegister = 30
	return registers{pc: r.Pc, sp: r.Sp, lr: r.Regs[linkRegister], exact: true}, nil
}

const prStatus = 1 // NT_PRSTATUS
