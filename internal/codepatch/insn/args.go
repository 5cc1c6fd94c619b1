package insn

// callABI is how Go passes integer words on one architecture.
type callABI struct {
	regsSince int      // the Go 1 minor that began to pass arguments in registers
	regs      []string // in order, both for arguments and for results
	mask      uint32   // the same, by number
	ctxt      int      // number of the register that holds the closure
	// stackArgs is the offset of the first argument on the stack from the stack
	// pointer at entry: over the return address on amd64, over the slot for the
	// callee's link register on arm64.
	stackArgs int
	g         string // register of the current g, from gSince on
	gSince    int
	splitG    string // before gSince: register that holds g at the branch of the stack check
}

// The ABIs: src/cmd/compile/abi-internal.md, and the assembler's prologues.
var callABIs = map[string]callABI{
	AMD64: {
		regsSince: 17,
		regs:      []string{"RAX", "RBX", "RCX", "RDI", "RSI", "R8", "R9", "R10", "R11"},
		mask: 1<<x86AX | 1<<x86BX | 1<<x86CX | 1<<x86DI | 1<<x86SI |
			1<<8 | 1<<9 | 1<<10 | 1<<x86R11,
		ctxt:      x86DX,
		stackArgs: 8,
		g:         "R14",
		gSince:    17,
		splitG:    "RCX",
	},
	ARM64: {
		regsSince: 18,
		regs: []string{"R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7",
			"R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"},
		mask:      0xFFFF,
		ctxt:      26,
		stackArgs: 8,
		g:         "R28",
	},
}

// ArgsInRegs reports whether functions of Go 1.minor find their arguments in
// registers. False for an unknown arch.
func ArgsInRegs(arch string, minor int) bool {
	abi, ok := callABIs[arch]
	return ok && minor >= abi.regsSince
}

// GReg returns the register that holds the current g anywhere in a function of
// Go 1.minor; at a Site, Site.GReg may be more exact. It is empty if g is in
// thread-local storage, see [TLSOffset], and for an unknown arch.
func GReg(arch string, minor int) string {
	if abi := callABIs[arch]; minor >= abi.gSince {
		return abi.g
	}
	return ""
}

// tlsSearch is the number of instructions among which TLSOffset looks for the
// load of g: it follows at most those that load arguments, and the check whether
// the goroutine is in secret mode.
const tlsSearch = 12

// TLSOffset returns the offset of g from the FS base that the code of an amd64
// function uses, where it first loads g from thread-local storage: before Go
// 1.17 in any prologue with a stack check, such as that of runtime.gopark, and in
// every release in runtime.systemstack. ok is false if the code has no such load
// among its first instructions, or finds the offset in memory, as the code of
// shared libraries does.
func TLSOffset(c Code) (offset int64, ok bool) {
	if c.check() != nil || c.Arch != AMD64 {
		return 0, false
	}
	var x x86Inst
	var base content // what an instruction has left in register reg
	reg := int8(-1)
	for off, n := 0, 0; off < len(c.Bytes) && n < tlsSearch; off, n = off+x.len, n+1 {
		x.decode(c.Bytes[off:])
		switch {
		case x.legacy(0, 0xC7) && x.mem.kind == x86NoMem: // mov $-8, rcx
			base, reg = content{kind: constant, val: x.constant()}, int8(x.rmField())
		case x.legacy(0, 0x8B) && x.pfx&x86Seg != 0 && x.mem.kind == x86AbsMem:
			return x.mem.disp, true
		case x.legacy(0, 0x8B) && x.pfx&x86Seg != 0:
			return int64(base.val) + x.mem.disp, x.mem.base == reg && x.mem.index < 0 && base.kind == constant
		case !x.valid:
			return 0, false
		}
	}
	return 0, false
}
