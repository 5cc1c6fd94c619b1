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

// frameSP returns the stack pointer that rt_sigreturn expects for a frame: after the return address.
func frameSP(frame uint64) uint64 { return frame + 8 }

// buildFrame returns the signal frame for the address at, from which a thread restores its registers and signal mask.
// fpAt is the address of its floating-point state, or 0 if it has none.
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
	le.PutUint32(b[stackFlags:], keepAltStack) // invalid, so that the kernel does not change the signal stack
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

// frameFP converts the floating-point state from the form of ptrace to that of a signal frame, which includes its size
// (struct _fpx_sw_bytes). If room is too small for the whole state, the parts that the thread does not use are omitted.
// The result is nil if room is still too small. Omitted protection keys get their defaults, which nearly every program
// uses.
func frameFP(state []byte, room int) []byte {
	const (
		software = 464
		header   = 512
		least    = header + 64
		vectors  = least + 256 // including the upper halves of the 256-bit registers, which always follow
		wide     = 7           // features up to these
		keys     = 1 << 9
		magic1   = 0x46505853
		magic2   = 0x46505845
		end      = 4 // size of the second magic number
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
