package ptrace

import "encoding/binary"

// wayBack is the code of a foothold: a system call, and rt_sigreturn behind it.
//
//	syscall
//	mov  $15, %eax
//	syscall
//	int3
var wayBack = []byte{0x0f, 0x05, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0xcc}

const (
	elfMachine  = 62 // EM_X86_64
	frameAlign  = 16
	frameSize   = 8 + 304 // of struct rt_sigframe in arch/x86/include/asm/sigframe.h, up to its siginfo
	fpAlign     = 64
	frameNeedFP = false // without it, rt_sigreturn gives the thread the state of a new one
)

// frameSP returns the stack pointer that rt_sigreturn expects for a frame: behind the return address.
func frameSP(frame uint64) uint64 { return frame + 8 }

// buildFrame makes the signal frame to be read at the address at, by which a thread gets its registers and signal mask
// back. fpAt is where its floating-point state lies; 0 when it has none.
func buildFrame(at uint64, r *Registers, mask uint64, fpAt uint64) []byte {
	const (
		hasXState    = 1 // UC_FP_XSTATE
		hasSS        = 2 // UC_SIGCONTEXT_SS
		strictSS     = 4 // UC_STRICT_RESTORE_SS
		keepAltStack = 0xff
		ucontext     = 8
		stackFlags   = ucontext + 24
		context      = ucontext + 40
		segments     = context + 144
		fpPointer    = context + 184
		sigmask      = context + 256
	)
	b := make([]byte, frameSize)
	le := binary.LittleEndian
	flags := uint64(hasSS | strictSS)
	if fpAt != 0 {
		flags |= hasXState
	}
	le.PutUint64(b[ucontext:], flags)
	le.PutUint32(b[stackFlags:], keepAltStack) // invalid, by which the kernel leaves the signal stack as it is
	n := r.restarted()
	for i, v := range [...]uint64{n.R8, n.R9, n.R10, n.R11, n.R12, n.R13, n.R14, n.R15, n.Rdi, n.Rsi, n.Rbp, n.Rbx, n.Rdx,
		n.Rax, n.Rcx, n.Rsp, n.Rip, n.Eflags} {
		le.PutUint64(b[context+8*i:], v)
	}
	for i, v := range [...]uint64{n.Cs, n.Gs, n.Fs, n.Ss} {
		le.PutUint16(b[segments+2*i:], uint16(v))
	}
	le.PutUint64(b[fpPointer:], fpAt)
	le.PutUint64(b[sigmask:], mask)
	return b
}

// fpSet is the register set with the floating-point state.
const fpSet = 0x202 // NT_X86_XSTATE

// frameFP makes of the state that ptrace gives the one that a signal frame holds: with the words that say how long it
// is (struct _fpx_sw_bytes). When room is too small for all of it, what the thread does not use is left out; nil when it
// still is. Protection keys get their default then, which nearly every program leaves them at.
func frameFP(state []byte, room int) []byte {
	const (
		software = 464
		header   = 512
		least    = header + 64
		vectors  = least + 256 // with the upper halves of the 256-bit registers, which always come next
		wide     = 7           // the features up to these
		keys     = 1 << 9
		magic1   = 0x46505853
		magic2   = 0x46505845
		end      = 4 // bytes of the second magic number
	)
	if len(state) < least || room < least+end {
		return nil
	}
	le := binary.LittleEndian
	features := le.Uint64(state[header:])
	if len(state)+end > room {
		if features &^= keys; features&^wide != 0 || len(state) < vectors || room < vectors+end {
			return nil
		}
		state = state[:vectors]
	}
	b := append([]byte(nil), state...)
	le.PutUint64(b[header:], features)
	le.PutUint32(b[software:], magic1)
	le.PutUint32(b[software+4:], uint32(len(state)+end))
	le.PutUint64(b[software+8:], features|3)
	le.PutUint32(b[software+16:], uint32(len(state)))
	return le.AppendUint32(b, magic2)
}
