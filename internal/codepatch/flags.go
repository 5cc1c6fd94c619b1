package codepatch

import (
	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/loupe-go/loupe/internal/gobin/insn"
)

// maxFlagSteps bounds the instructions that are looked at to learn whether the
// flags are still needed.
const maxFlagSteps = 64

// flagsLive says whether the flags may still be looked at when execution is at
// pc; use tells what an instruction does with them. No calling convention
// passes anything in the flags.
func (p *planner) flagsLive(pc uint64, use func(insn.Instruction) flagUse) bool {
	steps := maxFlagSteps
	var live func(pc uint64) bool
	live = func(pc uint64) bool {
		for ; steps > 0; steps-- {
			if !p.contains(pc) {
				return false // a tail call
			}
			n, ok := p.indexOf(pc)
			if !ok || !p.list[n].Valid {
				return true
			}
			i := p.list[n]
			switch i.Flow {
			case insn.FlowCall, insn.FlowCallReg, insn.FlowReturn:
				return false
			case insn.FlowIndirect, insn.FlowTrap:
				return true
			case insn.FlowJump:
				pc = i.Target
				continue
			}
			switch u := use(i); {
			case u == flagsRead:
				return true
			case u == flagsSet:
				return false
			}
			if i.Flow == insn.FlowCond {
				steps--
				if live(i.Target) {
					return true
				}
			}
			pc = i.Next()
		}
		return true
	}
	return live(pc)
}

func (p *planner) amd64FlagsLive(pc uint64) bool {
	return p.flagsLive(pc, func(i insn.Instruction) flagUse {
		x, err := x86asm.Decode(p.bytes(i), 64)
		if err != nil || x.Len != i.Len {
			return flagsRead
		}
		if use, ok := x86Ops[x.Op]; ok {
			return use
		}
		return flagsRead
	})
}

func (p *planner) armFlagsLive(pc uint64) bool {
	return p.flagsLive(pc, func(i insn.Instruction) flagUse {
		x, err := arm64asm.Decode(p.bytes(i))
		if err != nil {
			return flagsRead
		}
		if use, ok := armOps[x.Op]; ok {
			return use
		}
		return flagsRead
	})
}

// armOps are the instructions of which it is known what they do with the flags.
var armOps = map[arm64asm.Op]flagUse{
	arm64asm.MOV: flagsKept, arm64asm.MOVZ: flagsKept, arm64asm.MOVK: flagsKept, arm64asm.MOVN: flagsKept,
	arm64asm.ADD: flagsKept, arm64asm.SUB: flagsKept, arm64asm.AND: flagsKept, arm64asm.ORR: flagsKept,
	arm64asm.EOR: flagsKept, arm64asm.LSL: flagsKept, arm64asm.LSR: flagsKept, arm64asm.ASR: flagsKept,
	arm64asm.UBFX: flagsKept, arm64asm.SXTW: flagsKept, arm64asm.UBFIZ: flagsKept,
	arm64asm.MUL: flagsKept, arm64asm.MADD: flagsKept, arm64asm.MVN: flagsKept, arm64asm.NEG: flagsKept,
	arm64asm.LDR: flagsKept, arm64asm.LDRB: flagsKept, arm64asm.LDRH: flagsKept, arm64asm.LDRSW: flagsKept,
	arm64asm.STR: flagsKept, arm64asm.STRB: flagsKept, arm64asm.STRH: flagsKept,
	arm64asm.LDUR: flagsKept, arm64asm.STUR: flagsKept, arm64asm.LDP: flagsKept, arm64asm.STP: flagsKept,
	arm64asm.LDAR: flagsKept, arm64asm.STLR: flagsKept, arm64asm.LDARB: flagsKept, arm64asm.STLRB: flagsKept,
	arm64asm.ADR: flagsKept, arm64asm.ADRP: flagsKept, arm64asm.NOP: flagsKept, arm64asm.DMB: flagsKept,
	arm64asm.CBZ: flagsKept, arm64asm.CBNZ: flagsKept, arm64asm.TBZ: flagsKept, arm64asm.TBNZ: flagsKept,

	arm64asm.CMP: flagsSet, arm64asm.CMN: flagsSet, arm64asm.TST: flagsSet,
	arm64asm.ADDS: flagsSet, arm64asm.SUBS: flagsSet, arm64asm.ANDS: flagsSet, arm64asm.NEGS: flagsSet,
	arm64asm.FCMP: flagsSet, arm64asm.FCMPE: flagsSet,
}
