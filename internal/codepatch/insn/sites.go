package insn

import "fmt"

// MaxResults is the number of result words that a probe can read.
const MaxResults = 4

// SiteKind tells what instruction a probe would sit on.
type SiteKind uint8

const (
	// SiteEntry is the first instruction, taken when nothing better is there.
	SiteEntry SiteKind = iota
	// SiteStackCheck is the branch of the stack check. It is taken when the
	// stack must grow, after which the function starts over.
	SiteStackCheck
	// SitePush saves the frame pointer, after the stack check if there is one.
	SitePush
	// SiteBranch, SiteCall, SiteNop and SiteAddress are other emulated
	// instructions that every call of the function passes once, near its start:
	// a conditional or unconditional branch, a call, a no-operation, and arm64's
	// ADR and ADRP.
	SiteBranch
	SiteCall
	SiteNop
	SiteAddress
	// SiteReturn returns to the caller.
	SiteReturn
	// SiteBody is any other instruction behind the first.
	SiteBody
	// SiteStore stores a register in an object; see StoreSites.
	SiteStore
)

var siteKinds = [...]string{"entry", "stack check", "push", "branch", "call", "nop", "address", "return", "body", "store"}

func (k SiteKind) String() string {
	if int(k) < len(siteKinds) {
		return siteKinds[k]
	}
	return fmt.Sprintf("SiteKind(%d)", uint8(k))
}

// Site is a place in a function where a probe may sit. The probe sees the
// registers as they are before the instruction there.
type Site struct {
	PC     uint64
	Offset int // of PC from the function's entry
	Len    int // of the instruction, in bytes
	Kind   SiteKind
	// Emulated says that kernels from Since on carry the instruction out
	// without single-stepping it. Otherwise a hit costs about twenty times as much.
	Emulated bool
	Since    Kernel
	// SPMoved is how many bytes the stack pointer is below what it was at entry.
	SPMoved int
	// Framed says that the frame pointer is the function's own already: it points to the caller's.
	Framed bool
	// CheckTaken says that a hit with the branch about to be taken must be
	// ignored: the stack grows and the function starts over. It is taken when
	// the carry or the zero flag is set on amd64, and when the carry flag is
	// clear or the zero flag set on arm64.
	CheckTaken bool
	// Repeats says that one call can hit the site more than once: when the
	// stack grows, and CheckTaken does not tell those hits apart.
	Repeats bool
	// GReg is the register that holds the current g here; empty when it is in
	// thread-local storage.
	GReg string
	// Results are the offsets from the stack pointer of the first Words result words of a function, at the call of an [Exit] or
	// in the function that it calls. Elsewhere Words is 0.
	Results [MaxResults]int
	Words   int
	// Caller and CallerSize are the function to whose frame Results belong; CallerSize is 0 if it is the function itself.
	Caller, CallerSize uint64
	// Object and Value are the registers that hold the object and the word that is stored in it, at a SiteStore.
	Object, Value string
}

// EntrySite returns the cheapest place in a function of Go 1.minor to see its
// calls, with the first words argument words still where the caller puts them
// (the fewer these are, the more places there are):
//
//   - the branch of the stack check, which the kernel emulates without touching
//     memory;
//   - where that does not tell whether it is taken, the push of the frame
//     pointer that follows it (amd64, Go 1.21 on);
//   - else the first emulated instruction that each call passes once before one
//     of these words is overwritten;
//   - else the entry, which is not emulated.
func EntrySite(c Code, minor, words int) (Site, error) {
	if err := c.check(); err != nil {
		return Site{}, err
	}
	p := prologue{code: c, minor: minor, keep: argMask(c.Arch, minor, words)}
	p.stackArgs = words > 0 && minor < callABIs[c.Arch].regsSince
	return p.site(), nil
}

// argMask is the set of registers that hold the first words argument words,
// and the closure.
func argMask(arch string, minor, words int) uint32 {
	abi := callABIs[arch]
	mask := uint32(1) << abi.ctxt
	if minor < abi.regsSince {
		return mask
	}
	for i := range min(max(words, 0), len(abi.regs)) {
		mask |= 1 << regNumber(arch, abi.regs[i])
	}
	return mask
}

// amd64Numbers are the numbers of the registers that pass arguments.
var amd64Numbers = map[string]int{
	"RAX": x86AX, "RBX": x86BX, "RCX": x86CX, "RDI": x86DI, "RSI": x86SI,
	"R8": 8, "R9": 9, "R10": 10, "R11": x86R11,
}

func regNumber(arch, name string) int {
	if arch == AMD64 {
		return amd64Numbers[name]
	}
	n := 0
	for _, d := range name[1:] { // "R12"
		n = n*10 + int(d-'0')
	}
	return n
}

// prologue looks at the straight code at the start of a function.
type prologue struct {
	code      Code
	minor     int
	keep      uint32 // registers that must not be overwritten before the site
	stackArgs bool   // and the arguments on the stack neither
	start     int    // offset of the code that runs again when the stack has grown, see findStart
}

// maxPrologue bounds the instructions looked at, of a prologue and of the code
// that grows the stack.
const maxPrologue = 64

func (p *prologue) site() Site {
	if check, ok := p.stackCheck(); ok {
		told := p.belowOrEqual(check)
		if push, ok := p.pushAfter(check); ok && !told {
			return push
		}
		s := p.newSite(check, SiteStackCheck, 0)
		s.CheckTaken = told
		s.Repeats = !s.CheckTaken
		if abi := callABIs[p.code.Arch]; p.minor < abi.gSince {
			s.GReg = abi.splitG
		}
		return s
	}
	if s, ok := p.firstEmulated(); ok {
		return s
	}
	return p.newSite(p.stepAt(0), SiteEntry, 0)
}

// newSite describes a site on the instruction s.
func (p *prologue) newSite(s step, kind SiteKind, spMoved int) Site {
	pc := p.code.Entry + uint64(s.off)
	e, ok := EmulatedAt(p.code, pc)
	return Site{
		PC: pc, Offset: s.off, Len: s.len, Kind: kind, SPMoved: spMoved,
		Emulated: ok, Since: e.Since, GReg: GReg(p.code.Arch, p.minor),
	}
}

// stepAt decodes the instruction at off.
func (p *prologue) stepAt(off int) step { return stepAt(p.code, off) }

// findStart sets start: 0, or in programs built with -d=maymorestack=FUNC the
// offset behind the call of FUNC that each function begins with. A function
// that starts over does not call FUNC again. There all registers are as at the
// entry.
func (p *prologue) findStart() {
	behind := 0 // the call
	for off, n := 0, 0; off < len(p.code.Bytes) && n < maxPrologue; n++ {
		s := p.stepAt(off)
		off += s.len
		switch {
		case s.flow == flowCall && behind == 0:
			behind = off
		case s.flow == flowCond && behind > 0:
			if to, ok := p.startsOver(s.target); ok && to >= p.code.Entry+uint64(behind) && to <= p.code.Entry+uint64(s.off) {
				p.start = int(to - p.code.Entry)
			}
			return
		case s.flow != flowNext:
			return
		}
	}
}

// stackCheck finds the last branch of the stack check. Functions with huge
// frames have two or three; the others guard against wrap-around and
// pre-emption, and start the function over too.
func (p *prologue) stackCheck() (found step, ok bool) {
	p.findStart()
	for off, n := p.start, 0; off < len(p.code.Bytes) && n < maxPrologue; n++ {
		s := p.stepAt(off)
		switch {
		case s.flow == flowCond && p.growsStack(s.target):
			found, ok = s, true
		case s.flow != flowNext || ok && n > 12:
			return found, ok
		}
		off += s.len
	}
	return found, ok
}

// growsStack says whether the code at target calls something and then jumps
// back to the start, which is how a stack check goes on when it fails.
func (p *prologue) growsStack(target uint64) bool {
	to, ok := p.startsOver(target)
	return ok && to == p.code.Entry+uint64(p.start)
}

// startsOver returns where the code at target jumps to after its first call.
func (p *prologue) startsOver(target uint64) (to uint64, ok bool) {
	called := false
	for n := 0; p.code.contains(target) && n < maxPrologue; n++ {
		s := p.stepAt(int(target - p.code.Entry))
		switch {
		case s.flow == flowCall && !called:
			called = true
		case s.flow == flowJump:
			return s.target, called
		case s.flow != flowNext:
			return 0, false
		}
		target += uint64(s.len)
	}
	return 0, false
}

// belowOrEqual says whether a conditional branch is taken when an unsigned
// comparison gave below or equal.
func (p *prologue) belowOrEqual(s step) bool {
	if p.code.Arch == ARM64 {
		return armWord(p.code.Bytes[s.off:])&0xFF00001F == 0x54000009 // B.LS
	}
	var x x86Inst
	x.decode(p.code.Bytes[s.off:])
	return x.legacy(0, 0x76) || x.legacy(1, 0x86) // JBE
}

// pushAfter finds the push of a register that follows the stack check.
func (p *prologue) pushAfter(check step) (Site, bool) {
	off := check.off + check.len
	if p.code.Arch != AMD64 || off >= len(p.code.Bytes) {
		return Site{}, false
	}
	var x x86Inst
	if x.decode(p.code.Bytes[off:]); !x.isPushReg() {
		return Site{}, false
	}
	return p.newSite(p.stepAt(off), SitePush, 0), true
}

// firstEmulated finds the first emulated instruction in the straight code at
// the entry before which nothing of interest is overwritten.
func (p *prologue) firstEmulated() (Site, bool) {
	joins := branchTargets(p.code)
	moved := 0
	for off, n := 0, 0; off < len(p.code.Bytes) && n < maxPrologue; n++ {
		if joins.has(off) {
			return Site{}, false // a loop comes back here
		}
		s := p.stepAt(off)
		site := p.newSite(s, siteKind(p.code, s), moved)
		if site.Emulated && !widelyEmulated.Before(site.Since) {
			return site, true
		}
		if s.flow != flowNext {
			return Site{}, false
		}
		e := p.effect(off)
		if e.writes&p.keep != 0 || !e.spKnown {
			return Site{}, false
		}
		if p.stackArgs && e.storesAt >= moved+callABIs[p.code.Arch].stackArgs {
			return Site{}, false
		}
		moved += e.spMoved
		off += s.len
	}
	return Site{}, false
}

// siteKind names the kind of an instruction near the entry.
func siteKind(c Code, s step) SiteKind {
	switch s.flow {
	case flowCond, flowJump, flowJumpReg:
		return SiteBranch
	case flowCall, flowCallReg:
		return SiteCall
	case flowRet:
		return SiteReturn
	}
	e, _ := EmulatedAt(c, c.Entry+uint64(s.off))
	switch e {
	case emulX86Push:
		return SitePush
	case emulArmAddr:
		return SiteAddress
	case emulX86Nop, emulX86LongNop, emulArmNop:
		return SiteNop
	}
	return SiteEntry
}
