package goproc

import "github.com/loupe-go/loupe/internal/ptrace"

// threadRegs returns the registers of a stopped thread.
func threadRegs(r ptrace.Registers) registers {
	const linkRegister = 30
	return registers{pc: r.Pc, sp: r.Sp, lr: r.Regs[linkRegister], exact: true}
}
