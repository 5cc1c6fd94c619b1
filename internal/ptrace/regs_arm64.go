package ptrace

import "golang.org/x/sys/unix"

// Registers are those of a stopped thread, as in struct user_pt_regs.
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

// inCall reports whether the thread was in a system call when it stopped. The kernel has already set its registers back
// to before the call then, so this cannot be told.
func (r *Registers) inCall() bool { return false }

// compat reports whether the thread executes 32-bit code.
func (r *Registers) compat() bool { return r.Pstate&compatState != 0 }

// restarted returns the registers as the kernel will have set them when the thread goes on. It has done so already.
func (r *Registers) restarted() Registers { return *r }

// setCall makes the registers those before a system call by the instruction at pc.
func (r *Registers) setCall(pc, sp uint64, nr uint64, args [6]uint64) {
	r.Pc, r.Sp, r.Pstate = pc, sp, 0
	copy(r.Regs[:], args[:])
	r.Regs[callRegister] = nr
}

// callNumber returns the number of the call that a thread has stopped at the beginning or end of.
func (r *Registers) callNumber() uint64 { return r.Regs[callRegister] }

// result returns what a system call has returned.
func (r *Registers) result() uint64 { return r.Regs[0] }
