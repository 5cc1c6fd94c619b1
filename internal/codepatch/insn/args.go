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

// TLSOffset returns the offset of g from the FS base that the prologue of an
// amd64 function of Go before 1.17 uses. Any function with a stack check will
// do, such as runtime.gopark.
func TLSOffset(c Code) (int64, bool) {
	if c.check() != nil || c.Arch != AMD64 {
		return 0, false
	}
	var x x86Inst
	var base content // what the first instruction leaves in base register rcx
	for off, n := 0, 0; off < len(c.Bytes) && n < 2; off, n = off+x.len, n+1 {
		x.decode(c.Bytes[off:])
		switch {
		case x.legacy(0, 0xC7) && x.rmField() == x86CX && n == 0: // mov $-8, rcx
			base = content{kind: constant, val: x.constant()}
		case x.legacy(0, 0x8B) && x.pfx&x86Seg != 0 && x.regField() == x86CX && x.mem.kind == x86AbsMem && n == 0:
			return x.mem.disp, true
		case x.legacy(0, 0x8B) && x.pfx&x86Seg != 0 && x.regField() == x86CX && x.mem.base == x86CX && base.kind == constant:
			return int64(base.val) + x.mem.disp, true
		default:
			return 0, false
		}
	}
	return 0, false
}
