package codepatch

import (
	"slices"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// maxFlagSteps bounds the instructions that are looked at to learn whether the
// flags are still needed.
const maxFlagSteps = 4096

// flagsLive says whether the flags may still be looked at when execution is at
// pc: whether a way leads from there to an instruction that reads them before
// one that sets them all. use tells what an instruction does with them.
//
// No calling convention passes anything in the flags. But a function that
// restores them returns to code that never called it: runtime.asyncPreempt goes
// back to where a signal found the goroutine.
func (p *planner) flagsLive(pc uint64, use func(insn.Instruction) flagUse) bool {
	restores := slices.ContainsFunc(p.list, p.restoresFlags)
	seen := map[int]bool{}
	for work := []uint64{pc}; len(work) > 0; {
		pc, work = work[len(work)-1], work[:len(work)-1]
		if !p.contains(pc) { // a tail call
			if restores {
				return true
			}
			continue
		}
		n, ok := p.indexOf(pc)
		switch {
		case !ok || !p.list[n].Valid || len(seen) > maxFlagSteps:
			return true
		case seen[n]:
			continue
		}
		seen[n] = true
		i := p.list[n]
		switch i.Flow {
		case insn.FlowCall, insn.FlowCallReg, insn.FlowTrap:
			continue
		case insn.FlowReturn:
			if restores {
				return true
			}
			continue
		case insn.FlowIndirect:
			return true
		case insn.FlowJump:
			work = append(work, i.Target)
			continue
		}
		switch use(i) {
		case flagsRead:
			return true
		case flagsSet:
			continue
		}
		if i.Flow == insn.FlowCond {
			work = append(work, i.Target)
		}
		work = append(work, i.Next())
	}
	return false
}

// restoresFlags says whether an instruction loads all flags: POPF, or MSR to
// NZCV.
func (p *planner) restoresFlags(i insn.Instruction) bool {
	if p.f.Arch == insn.ARM64 {
		return p.armWord(i)&^31 == 0xD51B4200
	}
	code := p.bytes(i)
	return i.Flow == insn.FlowNext && i.Len <= 3 && code[i.Len-1] == 0x9D
}

func (p *planner) amd64FlagsLive(pc uint64) bool {
	return p.flagsLive(pc, func(i insn.Instruction) flagUse {
		if x, ok := p.x86(i); ok {
			if use, known := x86Ops[x.Op]; known {
				return use
			}
		}
		return flagsRead
	})
}

func (p *planner) armFlagsLive(pc uint64) bool {
	return p.flagsLive(pc, func(i insn.Instruction) flagUse { return armFlags(p.armWord(i)) })
}

// armFlags says what an instruction does with the flags, by the classes of
// encodings that the architecture manual divides them into.
func armFlags(w uint32) flagUse {
	setsFlags := w>>29&1 == 1
	switch class := w >> 25 & 0xF; {
	case class&5 == 4: // loads and stores
		return flagsKept
	case class>>1 == 4: // with an immediate
		sum, logical := w>>23&7 == 2, w>>23&7 == 4
		if sum && setsFlags || logical && w>>29&3 == 3 {
			return flagsSet
		}
		return flagsKept
	case class&7 == 5:
		return armRegisterFlags(w)
	case class&7 == 7: // floating point and vectors
		switch {
		case w&0xFF20FC07 == 0x1E202000: // FCMP, FCMPE
			return flagsSet
		case w&0xFF200400 == 0x1E200400: // FCCMP, FCSEL
			return flagsRead
		}
		return flagsKept
	case w>>25&0x3F == 0x1A, w>>25&0x3F == 0x1B: // CBZ, CBNZ, TBZ, TBNZ
		return flagsKept
	case w>>24 == 0xD5 && armSystemMoves(w) && w&^31 != 0xD53B4200: // but for MRS of the flags
		return flagsKept
	}
	return flagsRead // B.cond, and what is not known
}

// armRegisterFlags is armFlags for what computes with registers alone.
func armRegisterFlags(w uint32) flagUse {
	if w>>28&1 == 0 {
		sum := w>>24&1 == 1
		if sum && w>>29&1 == 1 || !sum && w>>29&3 == 3 {
			return flagsSet
		}
		return flagsKept
	}
	switch {
	case w>>24&1 == 1: // MADD and the like
		return flagsKept
	case w>>21&0xF == 6: // of one or two operands; SUBPS sets flags
		if w>>29&1 == 1 {
			return flagsSome
		}
		return flagsKept
	}
	return flagsRead // ADC, SBC, CCMP, CSEL
}
