package insntruth

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// armPrograms are the oldest target and the newest: the older assembler and
// compiler use other instructions. The oldest is left out unless all releases
// are chosen.
func armPrograms(t *testing.T) []*program {
	t.Helper()
	var ps []*program
	for _, version := range append(testtarget.Rare(t, testtarget.Versions()[0]), testtarget.Latest()) {
		spec := testtarget.Spec{Program: "zoo", Go: version, Arch: insn.ARM64}
		ps = append(ps, load(t, spec.String(), testtarget.Build(t, spec)))
	}
	return ps
}

// eachArmInst calls check for every different instruction word of the targets.
func eachArmInst(t *testing.T, check func(w uint32, inst arm64asm.Inst)) {
	t.Helper()
	seen := make(map[uint32]bool)
	for _, p := range armPrograms(t) {
		for _, f := range p.funcs {
			c, _ := p.code(f)
			for b := c.Bytes; len(b) >= 4; b = b[4:] {
				w := binary.LittleEndian.Uint32(b)
				if seen[w] {
					continue
				}
				seen[w] = true
				if inst, err := arm64asm.Decode(b); err == nil {
					check(w, inst)
				}
			}
		}
	}
	if len(seen) < 20_000 {
		t.Errorf("saw %d different instructions: too few to mean anything", len(seen))
	}
}

const armPC = 0x10000000

// armCode is a function of instruction words.
func armCode(words ...uint32) insn.Code {
	c := insn.Code{Arch: insn.ARM64, Entry: armPC}
	for _, w := range words {
		c.Bytes = binary.LittleEndian.AppendUint32(c.Bytes, w)
	}
	return c
}

// armInstruction decodes one instruction word at armPC.
func armInstruction(t *testing.T, w uint32) insn.Instruction {
	t.Helper()
	list, err := insn.Instructions(armCode(w))
	if err != nil || len(list) != 1 {
		t.Fatalf("%08x: %d instructions, %v", w, len(list), err)
	}
	return list[0]
}

var armFlows = map[arm64asm.Op]insn.Flow{
	arm64asm.B: insn.FlowJump, arm64asm.BL: insn.FlowCall, arm64asm.BR: insn.FlowIndirect, arm64asm.BLR: insn.FlowCallReg,
	arm64asm.RET: insn.FlowReturn, arm64asm.CBZ: insn.FlowCond, arm64asm.CBNZ: insn.FlowCond, arm64asm.TBZ: insn.FlowCond,
	arm64asm.TBNZ: insn.FlowCond, arm64asm.BRK: insn.FlowTrap, arm64asm.HLT: insn.FlowTrap,
}

func TestArmFlowAgainstArm64asm(t *testing.T) {
	branches := 0
	eachArmInst(t, func(w uint32, inst arm64asm.Inst) {
		want := armFlows[inst.Op]
		if _, conditional := inst.Args[0].(arm64asm.Cond); conditional && inst.Op == arm64asm.B {
			want = insn.FlowCond
		}
		got := armInstruction(t, w)
		if got.Flow != want {
			t.Errorf("%08x %v: flow %d, want %d", w, inst, got.Flow, want)
		}
		for _, a := range inst.Args {
			if rel, ok := a.(arm64asm.PCRel); ok && want != insn.FlowNext {
				branches++
				if got.Target != uint64(armPC+int64(rel)) {
					t.Errorf("%08x %v: target %#x", w, inst, got.Target)
				}
			}
		}
	})
	if branches < 5_000 {
		t.Errorf("checked %d branches: too few to mean anything", branches)
	}
}

// The fields of registers in instruction words.
const (
	armRd, armRn, armR2, armRm = 0, 5, 10, 16 // as package insn names them

	armZero = 31 // the zero register or the stack pointer, by instruction
)

func armField(w uint32, field int) uint32 { return w >> field & 31 }

func armSet(w uint32, field int, r uint32) uint32 { return w&^(31<<field) | r<<field }

// TestArmEffectAgainstArm64asm checks that every register that arm64asm names as the destination counts as written.
func TestArmEffectAgainstArm64asm(t *testing.T) {
	if armWrites(t, 0xD503201F) { // NOP
		t.Fatal("every instruction counts as one that writes a register")
	}
	written := 0
	eachArmInst(t, func(w uint32, inst arm64asm.Inst) {
		r, ok := armGPR(inst.Args[0])
		if !ok || armFlows[inst.Op] != insn.FlowNext || strings.HasPrefix(inst.Op.String(), "ST") || armReadsFirst[inst.Op] {
			return
		}
		w, inst = armOnlyDestination(t, w, r, inst)
		written++
		if !armWrites(t, w) {
			t.Errorf("%08x %v: writes no register", w, inst)
		}
	})
	if written < 10_000 {
		t.Errorf("checked %d destinations: too few to mean anything", written)
	}
}

// armVisible are the registers of which armWrites sees that they are written, and armHidden is one of the others.
const (
	armVisible = 1<<18 - 1 | 0x7F<<19
	armHidden  = 28
)

// armWrites reports whether w counts as an instruction that writes a register of armVisible. A probe behind such a write
// would not find what the caller has put into the registers, or would overwrite it.
func armWrites(t *testing.T, w uint32) bool {
	t.Helper()
	const ret = 0xD65F03C0
	sites, err := insn.LaterSites(armCode(w, ret), minorOf(t, testtarget.Latest()), 16, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(sites) == 0
}

// armOnlyDestination replaces the registers of an instruction, so that armWrites sees a write of its first operand, which
// is register r, and of no other one.
func armOnlyDestination(t *testing.T, w uint32, r int, inst arm64asm.Inst) (uint32, arm64asm.Inst) {
	t.Helper()
	if armVisible>>r&1 == 0 {
		w = armSet(w, armRd, 3)
	}
	if slices.ContainsFunc(inst.Args[:], isArmMemory) {
		w = armSet(w, armRn, armHidden) // writeback
		if _, pair := inst.Args[1].(arm64asm.Reg); pair {
			w = armSet(w, armR2, armHidden)
		}
	}
	changed, err := arm64asm.Decode(binary.LittleEndian.AppendUint32(nil, w))
	if err != nil || changed.Op != inst.Op {
		t.Errorf("%08x %v is not %v with other registers: %v", w, changed, inst, err)
	}
	return w, changed
}

func isArmMemory(a arm64asm.Arg) bool {
	switch a.(type) {
	case arm64asm.MemImmediate, arm64asm.MemExtend:
		return true
	}
	return false
}

// TestArmMemoryAgainstArm64asm checks that memory operands have the offset and the writeback that arm64asm names.
func TestArmMemoryAgainstArm64asm(t *testing.T) {
	memory := 0
	eachArmInst(t, func(w uint32, inst arm64asm.Inst) {
		for _, arg := range inst.Args {
			m, ok := arg.(arm64asm.MemImmediate)
			if !ok || m.Mode == arm64asm.AddrPostReg {
				continue
			}
			base := armFreeRegister(w)
			got, ok := armOperand(t, w, base)
			if !ok {
				continue
			}
			memory++
			if want := strings.Replace(m.String(), arm64asm.RegSP(m.Base).String(), fmt.Sprintf("X%d", base), 1); got != want {
				t.Errorf("%08x %v: the operand with another base is %s, want %s", w, inst, got, want)
			}
		}
	})
	if memory < 5_000 {
		t.Errorf("checked %d memory operands: too few to mean anything", memory)
	}
}

// armFreeRegister returns a register that a load or store names in no field but that of the base.
func armFreeRegister(w uint32) uint32 {
	for r := uint32(20); ; r++ {
		if armField(w, armRd) != r && armField(w, armR2) != r && armField(w, armRm) != r {
			return r
		}
	}
}

// armOperand returns the memory operand of a load or store as arm64asm writes it, with another register as the base. ok is
// false if package insn does not know the instruction. Refs shows the offset, as it knows what is in the base, and whether
// the instruction changes the base. What it adds to the base shows if that is the stack pointer.
func armOperand(t *testing.T, w, base uint32) (operand string, ok bool) {
	t.Helper()
	const (
		adr, static = 0x10000800, 0x100 // ADR X0, .+0x100
		load        = 0xF9400000        // LDR X0, [X0]
	)
	refs, err := insn.Refs(armCode(armSet(adr, armRd, base), armSet(w, armRn, base), armSet(load, armRn, base)))
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) < 2 || refs[1].PC != armPC+4 {
		return "", false
	}
	offset := int64(refs[1].Addr - armPC - static)
	kept := refs[len(refs)-1].PC == armPC+8
	added := -armInstruction(t, armSet(w, armRn, armZero)).SPMoved
	switch {
	case kept && offset == 0:
		return fmt.Sprintf("[X%d]", base), true
	case kept:
		return fmt.Sprintf("[X%d,#%d]", base, offset), true
	case offset == 0:
		return fmt.Sprintf("[X%d],#%d", base, added), true
	case int64(added) != offset:
		t.Errorf("%08x: adds %d to the stack pointer, and %d to another base", w, added, offset)
	}
	return fmt.Sprintf("[X%d,#%d]!", base, offset), true
}

// armReadsFirst are the instructions whose first operand is a source.
var armReadsFirst = map[arm64asm.Op]bool{
	arm64asm.CMP: true, arm64asm.CMN: true, arm64asm.TST: true, arm64asm.CCMP: true, arm64asm.CCMN: true,
	arm64asm.MSR: true,
}

// armGPR numbers a general register; the zero register and the stack pointer are none.
func armGPR(a arm64asm.Arg) (int, bool) {
	var r arm64asm.Reg
	switch a := a.(type) {
	case arm64asm.Reg:
		r = a
	case arm64asm.RegSP:
		if r = arm64asm.Reg(a); r == arm64asm.SP || r == arm64asm.WSP {
			return armZero, false
		}
	default:
		return 0, false
	}
	switch {
	case r < arm64asm.WZR:
		return int(r - arm64asm.W0), true
	case r >= arm64asm.X0 && r < arm64asm.XZR:
		return int(r - arm64asm.X0), true
	}
	return armZero, false
}
