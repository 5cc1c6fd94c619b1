package goproc

import "github.com/loupe-go/loupe/internal/ptrace"

// threadRegs returns the registers of a stopped thread.
func threadRegs(r ptrace.Registers) registers {
	// syscall.rawVforkSyscall keeps its return address in R12 while the child uses the stack.
	return registers{pc: r.Rip, sp: r.Rsp, lr: r.R12, exact: true}
}
