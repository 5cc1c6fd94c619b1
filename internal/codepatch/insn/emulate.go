package insn

import "fmt"

// Kernel is a Linux version.
type Kernel struct{ Major, Minor int }

func (k Kernel) String() string { return fmt.Sprintf("%d.%d", k.Major, k.Minor) }

// Before says whether k is an older version than other.
func (k Kernel) Before(other Kernel) bool {
	return k.Major < other.Major || k.Major == other.Major && k.Minor < other.Minor
}

// Emulation is a kind of instruction that the kernel carries out by itself
// when a uprobe sits on it. All others are single-stepped out of line, which
// costs a second trap, or refused.
type Emulation struct {
	Arch  string
	Instr string // for people
	Since Kernel // the first version that does
}

// The emulated instructions; from arch/x86/kernel/uprobes.c and
// arch/arm64/kernel/probes/decode-insn.c of Linux 3.16 to 6.18.
var (
	emulX86Branch  = Emulation{AMD64, "jcc, jmp or call to a fixed address", Kernel{3, 16}}
	emulX86Nop     = Emulation{AMD64, "one-byte nop", Kernel{3, 16}}
	emulX86Push    = Emulation{AMD64, "push of a register", Kernel{4, 16}}
	emulX86LongNop = Emulation{AMD64, "longer nop", Kernel{6, 18}}
	emulArmBranch  = Emulation{ARM64, "branch, call or ret, also conditional and to a register", Kernel{4, 10}}
	emulArmAddr    = Emulation{ARM64, "adr, adrp", Kernel{4, 10}}
	emulArmNop     = Emulation{ARM64, "nop", Kernel{6, 13}}
)

// widelyEmulated is the newest kernel whose emulations a site may rely on when
// the kernel is not known: older ones lack what eBPF tracing needs anyway.
var widelyEmulated = Kernel{4, 16}

// EmulatedAt returns how the kernel emulates the instruction at pc in c, and
// whether it does.
func EmulatedAt(c Code, pc uint64) (Emulation, bool) {
	if c.check() != nil || !c.contains(pc) {
		return Emulation{}, false
	}
	b := c.Bytes[pc-c.Entry:]
	if c.Arch == ARM64 {
		if len(b) < 4 {
			return Emulation{}, false
		}
		return armEmulation(armWord(b))
	}
	var x x86Inst
	x.decode(b)
	return x.emulation()
}

func (x *x86Inst) emulation() (Emulation, bool) {
	if !x.valid || x.mode != x86Legacy {
		return Emulation{}, false
	}
	// On any instruction the kernel refuses LOCK and the segment prefixes that
	// mean nothing, and on branches the operand-size prefix.
	if x.pfx&(x86Lock|x86Ignored) != 0 {
		return Emulation{}, false
	}
	switch f, _ := x.flow(0); f {
	case flowCond:
		if x.space == 0 && x.op&0xF0 == 0xE0 { // LOOP, JRCXZ
			return Emulation{}, false
		}
		return emulX86Branch, x.pfx&x86OpSize == 0
	case flowJump, flowCall:
		return emulX86Branch, x.pfx&x86OpSize == 0
	}
	switch {
	case x.isPushReg():
		return emulX86Push, x.pfx == 0 && (x.rex == 0 || x.rex == 0x41)
	case x.legacy(0, 0x90) && x.pfx == 0 && x.rex == 0:
		return emulX86Nop, true
	case x.isNop():
		return emulX86LongNop, true
	}
	return Emulation{}, false
}

// isNop says whether x does nothing: NOP of any length, but not PAUSE.
func (x *x86Inst) isNop() bool {
	return x.legacy(0, 0x90) && x.pfx&x86Rep == 0 && x.rex&1 == 0 || x.legacy(1, 0x1F)
}

const armNop = 0xD503201F

func armEmulation(w uint32) (Emulation, bool) {
	switch f, _ := armFlow(w, 0); f {
	case flowCond:
		return emulArmBranch, w>>24 != 0x54 || w&0x10 == 0 // not BC.cond
	case flowJump, flowCall:
		return emulArmBranch, true
	case flowJumpReg, flowCallReg, flowRet:
		return emulArmBranch, w>>24 == 0xD6 && w>>10&63 == 0 && w>>21&7 < 4 // not those with pointer authentication
	}
	switch {
	case w>>24&0x1F == 0x10:
		return emulArmAddr, true
	case w == armNop:
		return emulArmNop, true
	}
	return Emulation{}, false
}
