package ptrace

import "encoding/binary"

// wayBack is the code of a foothold: a system call, and rt_sigreturn behind it.
//
//	svc #0
//	mov x8, #139
//	svc #0
//	brk #0
var wayBack = []byte{0x01, 0x00, 0x00, 0xd4, 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4, 0x00, 0x00, 0x20, 0xd4}

const (
	elfMachine  = 183 // EM_AARCH64
	frameAlign  = 16
	frameSize   = 128 + 464 // of struct rt_sigframe in arch/arm64/kernel/signal.c, up to the records
	fpAlign     = 1         // the record follows immediately
	frameNeedFP = true      // rt_sigreturn rejects a frame without it
)

// frameSP returns the stack pointer that rt_sigreturn expects for a frame.
func frameSP(frame uint64) uint64 { return frame }

// buildFrame returns the signal frame for the address at, from which a thread restores its registers and signal mask.
// The record with its floating-point state follows the frame.
func buildFrame(at uint64, r *Registers, mask uint64, fpAt uint64) []byte {
	const (
		ucontext     = 128 // behind the siginfo
		keepAltStack = 0xff
		stackFlags   = ucontext + 24
		sigmask      = ucontext + 40
		registers    = ucontext + 176 + 8
	)
	b := make([]byte, frameSize)
	le := binary.LittleEndian
	le.PutUint32(b[stackFlags:], keepAltStack) // invalid, so that the kernel does not change the signal stack
	le.PutUint64(b[sigmask:], mask)
	for i, v := range r.Regs {
		le.PutUint64(b[registers+8*i:], v)
	}
	for i, v := range [...]uint64{r.Sp, r.Pc, r.Pstate} {
		le.PutUint64(b[registers+8*(len(r.Regs)+i):], v)
	}
	return b
}

// fpSet is the register set with the floating-point state.
const fpSet = 2 // NT_PRFPREG

// frameFP converts the floating-point state of ptrace (struct user_fpsimd_state) to the record of a signal frame
// (struct fpsimd_context), followed by the record that ends the list. The result is nil if room is too small.
func frameFP(state []byte, room int) []byte {
	const (
		magic   = 0x46508001
		vectors = 32 * 16
		control = 8 // FPSR and FPCR, which are after the vectors in one and before them in the other
		size    = 8 + control + vectors
	)
	if len(state) < vectors+control || room < size+8 {
		return nil
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, magic)
	b = le.AppendUint32(b, size)
	b = append(b, state[vectors:vectors+control]...)
	b = append(b, state[:vectors]...)
	return append(b, make([]byte, 8)...)
}
