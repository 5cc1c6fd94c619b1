package insn

import (
	"errors"
	"fmt"
)

// Architectures of a [Code], spelled as GOARCH.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

var (
	// ErrUnsupportedArch reports an architecture that is neither AMD64 nor ARM64. Packages gobin and layout return it, too.
	ErrUnsupportedArch = errors.New("unsupported architecture")
	// ErrNoCode reports a Code without bytes.
	ErrNoCode = errors.New("function has no code")
)

// Code is the machine code of one function.
type Code struct {
	Arch  string // AMD64 or ARM64
	Entry uint64 // the address of Bytes[0] in the running program, or in the file
	Bytes []byte // from the first instruction to the last; padding after it is harmless
}

// contains says whether pc lies within the function.
func (c Code) contains(pc uint64) bool { return pc-c.Entry < uint64(len(c.Bytes)) }

func (c Code) check() error {
	if c.Arch != AMD64 && c.Arch != ARM64 {
		return fmt.Errorf("%w %q", ErrUnsupportedArch, c.Arch)
	}
	if len(c.Bytes) == 0 {
		return ErrNoCode
	}
	return nil
}

// flow is what an instruction does to the order of execution.
type flow uint8

const (
	flowNext    flow = iota // goes on to the next instruction
	flowCond                // conditional branch to target
	flowJump                // unconditional branch to target
	flowJumpReg             // unconditional branch to a computed address
	flowCall                // call of target
	flowCallReg             // call of a computed address
	flowRet                 // return
	flowTrap                // never goes on (undefined instruction, breakpoint, hlt)
)

// endsBlock says whether execution never passes to the next instruction.
func (f flow) endsBlock() bool {
	return f == flowJump || f == flowJumpReg || f == flowRet || f == flowTrap
}

// step is one instruction as the control flow sees it.
type step struct {
	off    int // from the function's entry
	len    int
	flow   flow
	target uint64 // of flowCond, flowJump and flowCall
}

// walk calls visit for each instruction of c, in order of address.
func walk(c Code, visit func(step)) {
	if c.Arch == ARM64 {
		for off := 0; off+4 <= len(c.Bytes); off += 4 {
			s := step{off: off, len: 4}
			s.flow, s.target = armFlow(armWord(c.Bytes[off:]), c.Entry+uint64(off))
			visit(s)
		}
		return
	}
	var x x86Inst
	for off := 0; off < len(c.Bytes); off += x.len {
		x.decode(c.Bytes[off:])
		s := step{off: off, len: x.len}
		s.flow, s.target = x.flow(c.Entry + uint64(off))
		visit(s)
	}
}

// offsetSet is a set of offsets within one function.
type offsetSet []uint64

func newOffsetSet(n int) offsetSet { return make(offsetSet, n/64+1) }

func (s offsetSet) add(off int)      { s[off/64] |= 1 << (off % 64) }
func (s offsetSet) has(off int) bool { return s[off/64]&(1<<(off%64)) != 0 }

// branchTargets returns the offsets in c that a branch of c itself jumps to.
// Targets of jump tables are not among them: they are data.
func branchTargets(c Code) offsetSet {
	set := newOffsetSet(len(c.Bytes))
	walk(c, func(s step) {
		if (s.flow == flowCond || s.flow == flowJump) && c.contains(s.target) {
			set.add(int(s.target - c.Entry))
		}
	})
	return set
}
