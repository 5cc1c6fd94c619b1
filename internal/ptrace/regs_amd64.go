package ptrace

import "golang.org/x/sys/unix"

// Registers are the registers of a stopped thread, as in struct user_regs_struct.
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
	plainFlags  = 0x202 // interrupts enabled, which user code cannot change, and all other flags clear
)

// eventWaits are the system calls that a stop ends with EINTR.
var eventWaits = []uint64{unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_PWAIT2}

// The results with which the kernel marks a system call that it will restart, from include/linux/errno.h.
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

// restarted returns the registers with which the thread will resume. A call that would continue with its remaining
// timeout is restarted with its full timeout.
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

// setCall sets the registers for a system call by the instruction at pc.
func (r *Registers) setCall(pc, sp uint64, nr uint64, args [6]uint64) {
	r.Rip, r.Rsp, r.Rax, r.Orig_rax, r.Eflags = pc, sp, nr, noCall, plainFlags
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = args[0], args[1], args[2], args[3], args[4], args[5]
}

// callNumber returns the number of the system call at whose entry or exit a thread has stopped.
func (r *Registers) callNumber() uint64 { return r.Orig_rax }

// result returns the result of a system call.
func (r *Registers) result() uint64 { return r.Rax }
