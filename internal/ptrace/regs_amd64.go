package ptrace

import "golang.org/x/sys/unix"

// Registers are those of a stopped thread, as in struct user_regs_struct.
type Registers unix.PtraceRegs

// PC returns the address of the next instruction.
func (r *Registers) PC() uint64 { return r.Rip }

// SP returns the stack pointer.
func (r *Registers) SP() uint64 { return r.Rsp }

const (
	syscallSize = 2 // of the syscall instruction
	noCall      = ^uint64(0)
	auditArch   = unix.AUDIT_ARCH_X86_64
	compatCS    = 0x23 // the code segment of 32-bit programs
	x32Call     = 1 << 30
	plainFlags  = 0x202 // interrupts on, which user code cannot change, and nothing else
)

// eventWaits are the system calls that a stop ends with EINTR.
var eventWaits = []uint64{unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}

// The results by which the kernel marks a system call for being restarted, from include/linux/errno.h.
const (
	restartSys     = -512
	restartNoIntr  = -513
	restartNoHand  = -514
	restartByBlock = -516
)

// inCall reports whether the thread was in a system call when it stopped.
func (r *Registers) inCall() bool { return r.Orig_rax != noCall }

// compat reports whether the thread executes 32-bit code, or code with 32-bit pointers.
func (r *Registers) compat() bool {
	return r.Cs == compatCS || r.inCall() && r.Orig_rax&x32Call != 0
}

// restarted returns the registers as the kernel will have set them when the thread goes on. A call that would go on with
// its remaining time is begun anew.
func (r *Registers) restarted() Registers {
	n := *r
	if !r.inCall() {
		return n
	}
	switch int64(r.Rax) {
	case restartSys, restartNoIntr, restartNoHand, restartByBlock:
		n.Rip -= syscallSize
		n.Rax = r.Orig_rax
	}
	return n
}

// setCall makes the registers those before a system call by the instruction at pc.
func (r *Registers) setCall(pc, sp uint64, nr uint64, args [6]uint64) {
	r.Rip, r.Rsp, r.Rax, r.Orig_rax, r.Eflags = pc, sp, nr, noCall, plainFlags
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = args[0], args[1], args[2], args[3], args[4], args[5]
}

// callNumber returns the number of the call that a thread has stopped at the beginning or end of.
func (r *Registers) callNumber() uint64 { return r.Orig_rax }

// result returns what a system call has returned.
func (r *Registers) result() uint64 { return r.Rax }
