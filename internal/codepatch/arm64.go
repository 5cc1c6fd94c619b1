package codepatch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/arch/arm64/arm64asm"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// Instructions of arm64, and fields of them.
const (
	armImm26 = 1<<26 - 1
	armB     = 0x14000000
	armBL    = 0x94000000
	armBR    = 0xD61F0000
	armMOVZ  = 0xD2800000
	armMOVK  = 0xF2800000

	armLink = 30
	armZero = 31 // or the stack pointer
)

func armPiece(words ...uint32) piece {
	var p piece
	for _, w := range words {
		p.code = binary.LittleEndian.AppendUint32(p.code, w)
	}
	return p
}

// armBranch is a B or BL to target, after other words.
func armBranch(branch uint32, target uint64, before ...uint32) piece {
	p := armPiece(append(before, branch)...)
	p.form, p.field, p.target = relArm, 4*len(before), target
	return p
}

func (p *planner) armWord(i insn.Instruction) uint32 {
	return binary.LittleEndian.Uint32(p.bytes(i))
}

// arm64 plans the displacement of the one instruction at the site: a branch has
// its size, and reaches 128 MiB.
func (p *planner) arm64() (*Displacement, error) {
	if p.site.PC%4 != 0 {
		return nil, errors.New("the address is not aligned")
	}
	i := p.list[p.at]
	w := p.armWord(i)
	if _, err := arm64asm.Decode(p.bytes(i)); err != nil {
		return nil, fmt.Errorf("unknown instruction %#08x", w)
	}
	if p.inExclusive() {
		return nil, errors.New("it lies between an exclusive load and its store, and the probe would make every store fail")
	}
	d := p.displace(p.at, p.at)
	d.jump = armBranch(armB, 0)
	d.Durable = true // breakpoints have the size of the jump
	d.FlagsLive = p.armFlagsLive(i.PC)
	var m piece
	switch i.Flow {
	case insn.FlowCall:
		d.jump, m, d.FlagsLive = armBranch(armBL, 0), armBranch(armB, i.Target), false
	case insn.FlowCallReg:
		r := w >> 5 & 31
		if w&^(31<<5) != armBR|1<<21 || r == armLink {
			return nil, errors.New("a call that cannot be converted to a jump")
		}
		d.jump, m, d.FlagsLive = armBranch(armBL, 0), armPiece(armBR|r<<5), false
	case insn.FlowJump:
		m = armBranch(armB, i.Target)
	case insn.FlowCond:
		var err error
		if m, err = armMoveCond(w, i.Target); err != nil {
			return nil, err
		}
	case insn.FlowIndirect, insn.FlowReturn:
		if !armPlainBranch(w) {
			return nil, fmt.Errorf("the branch %#08x cannot be moved", w)
		}
		m = armPiece(w)
	default:
		var err error
		if m, err = armMove(w, i.PC); err != nil {
			return nil, err
		}
		d.MayFault = p.armFaults(w)
	}
	back := armBranch(armB, d.End)
	switch {
	case p.probesAfter():
		d.before, d.after = []piece{m}, []piece{back}
		d.FlagsLive = p.armFlagsLive(d.End)
	case i.Flow == insn.FlowNext || i.Flow == insn.FlowCond:
		d.after = []piece{m, back}
	default:
		d.after = []piece{m}
	}
	return d, nil
}

// armPlainBranch tells RET and BR from those with pointer authentication and
// from ERET.
func armPlainBranch(w uint32) bool {
	op := w &^ (31 << 5)
	return op == armBR || op == armBR|2<<21
}

// armMoveCond makes a far branch of a conditional one: the opposite condition
// jumps over it.
func armMoveCond(w uint32, target uint64) (piece, error) {
	switch {
	case w>>24 == 0x54 && w&0x10 == 0 && w&0xE != 0xE: // B.cond, but not those that always branch
		return armBranch(armB, target, 0x54000000|2<<5|(w^1)&0xF), nil
	case w>>25&0x3F == 0x1A: // CBZ, CBNZ
		return armBranch(armB, target, (w^1<<24)&0xFF00001F|2<<5), nil
	case w>>25&0x3F == 0x1B: // TBZ, TBNZ
		return armBranch(armB, target, (w^1<<24)&0xFFF8001F|2<<5), nil
	}
	return piece{}, fmt.Errorf("the conditional branch %#08x cannot be moved", w)
}

// armMove makes an instruction that is no branch fit for another place.
func armMove(w uint32, pc uint64) (piece, error) {
	rd := w & 31
	switch {
	case w>>24&0x1F == 0x10: // ADR, ADRP
		imm := int64(int32(w<<8)>>13<<2) | int64(w>>29&3)
		addr := pc + uint64(imm)
		if w>>31 == 1 {
			addr = pc&^0xFFF + uint64(imm<<12)
		}
		if rd == armZero {
			return piece{}, errors.New("an address calculation without a destination register")
		}
		return armPiece(armConst(rd, addr)...), nil
	case w>>27&7 == 3 && w>>24&3 == 0: // load of a literal
		return armMoveLiteral(w, pc+uint64(int64(int32(w<<8)>>13)*4))
	case w>>24 == 0xD4:
		return piece{}, fmt.Errorf("the instruction %#08x raises an exception", w)
	case w>>24 == 0xD5:
		if !armSystemMoves(w) {
			return piece{}, fmt.Errorf("the system instruction %#08x cannot be moved", w)
		}
	case armExclusive(w):
		return piece{}, errors.New("an exclusive access, which would fail because of the probe")
	case w>>25&0xF < 4:
		return piece{}, fmt.Errorf("the instruction %#08x cannot be moved", w)
	}
	return armPiece(w), nil
}

// armSystemMoves tells the system instructions that do the same everywhere:
// hints, barriers, and reads of registers.
func armSystemMoves(w uint32) bool {
	hint := w&0xFFFFF01F == 0xD503201F
	barrier := w&0xFFFFF000 == 0xD5033000
	return hint || barrier || w>>20 == 0xD53 // MRS
}

// armMoveLiteral loads a literal through the register that the load overwrites.
func armMoveLiteral(w uint32, addr uint64) (piece, error) {
	rt := w & 31
	if w>>26&1 == 1 || rt == armZero {
		return piece{}, errors.New("a load of a literal, without a free register for its address")
	}
	load := [4]uint32{0xB9400000, 0xF9400000, 0xB9800000, 0}[w>>30] // LDR of 4 bytes, of 8, LDRSW
	if load == 0 {
		return piece{}, errors.New("a prefetch of a literal")
	}
	return armPiece(append(armConst(rt, addr), load|rt<<5|rt)...), nil
}

// armConst puts a constant into a register.
func armConst(rd uint32, v uint64) []uint32 {
	words := []uint32{armMOVZ | uint32(v&0xFFFF)<<5 | rd}
	for n := uint32(1); n < 4; n++ {
		if half := uint32(v>>(16*n)) & 0xFFFF; half != 0 {
			words = append(words, armMOVK|n<<21|half<<5|rd)
		}
	}
	return words
}

// armExclusive tells exclusive loads and stores.
func armExclusive(w uint32) bool { return w>>24&0x3F == 0x08 && w>>23&1 == 0 }

// maxExclusive bounds how far a store is looked for behind an exclusive load.
const maxExclusive = 32

// inExclusive says whether the site comes after an exclusive load whose store is
// still to come: the probe's own accesses would make that fail each time.
func (p *planner) inExclusive() bool {
	for n := p.at - 1; n >= 0 && n >= p.at-maxExclusive; n-- {
		i := p.list[n]
		if w := p.armWord(i); armExclusive(w) {
			return w>>22&1 == 1 // a load
		}
		if i.Flow.EndsBlock() || i.Flow == insn.FlowCall || i.Flow == insn.FlowCallReg {
			return false
		}
	}
	return false
}

// armFaults says whether w accesses memory other than the stack, the current g
// and static data.
func (p *planner) armFaults(w uint32) bool {
	if w>>27&1 == 0 || w>>25&1 == 1 { // no load or store
		return false
	}
	if w>>27&7 == 3 && w>>24&3 == 0 { // of a literal
		return false
	}
	base := w >> 5 & 31
	return base != armZero && base != 29 && fmt.Sprintf("R%d", base) != p.site.GReg
}
