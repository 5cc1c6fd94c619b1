package ptrace

import "golang.org/x/sys/unix"

// Registers are the registers of a stopped thread, as in struct user_pt_regs.
type Registers unix.PtraceRegs

// PC returns the address of the next instruction.
func (r *Registers) PC() uint64 { return r.Pc }

// SP returns the stack pointer.
func (r *Registers) SP() uint64 { return r.Sp }

const (
	syscallSize  = 4 // of the svc instruction
	callRegister = 8 // holds the number of a system call
	auditArch    = unix.AUDIT_ARCH_AARCH64
	compatState  = 1 << 4 // in PSTATE: 32-bit code
)

// eventWaits are the system calls that a stop ends with EINTR.
var eventWaits = []uint64{unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}

// inCall reports whether the thread was in a system call when it stopped. On arm64 this is unknown, because the kernel
// has already reset the registers to those before the call.
func (r *Registers) inCall() bool { return false }

// compat reports whether the thread executes 32-bit code.
func (r *Registers) compat() bool { return r.Pstate&compatState != 0 }

// restarted returns the registers with which the thread will resume. The kernel has already set them.
func (r *Registers) restarted() Registers { return *r }

// setCall sets the registers for a system call by the instruction at pc.
func (r *Registers) setCall(pc, sp uint64, nr uint64, args [6]uint64) {
	r.Pc, r.Sp, r.Pstate = pc, sp, 0
	copy(r.Regs[:], args[:])
	r.Regs[callRegister] = nr
}

// callNumber returns the number of the system call at whose entry or exit a thread has stopped.
func (r *Registers) callNumber() uint64 { return r.Regs[callRegister] }

// result returns the result of a system call.
func (r *Registers) result() uint64 { return r.Regs[0] }
