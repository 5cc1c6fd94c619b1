package insn

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// armPrograms are the oldest target and the newest: the older assembler and
// compiler use other instructions.
func armPrograms(t *testing.T) []*program {
	t.Helper()
	var ps []*program
	for _, version := range []string{testtarget.Versions()[0], testtarget.Latest()} {
		spec := testtarget.Spec{Program: "zoo", Go: version, Arch: ARM64}
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
				w := armWord(b)
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

var armFlows = map[arm64asm.Op]flow{
	arm64asm.B: flowJump, arm64asm.BL: flowCall, arm64asm.BR: flowJumpReg, arm64asm.BLR: flowCallReg,
	arm64asm.RET: flowRet, arm64asm.CBZ: flowCond, arm64asm.CBNZ: flowCond, arm64asm.TBZ: flowCond,
	arm64asm.TBNZ: flowCond, arm64asm.BRK: flowTrap, arm64asm.HLT: flowTrap,
}

func TestArmFlowAgainstArm64asm(t *testing.T) {
	const pc = 0x10000000
	branches := 0
	eachArmInst(t, func(w uint32, inst arm64asm.Inst) {
		want := armFlows[inst.Op]
		if _, conditional := inst.Args[0].(arm64asm.Cond); conditional && inst.Op == arm64asm.B {
			want = flowCond
		}
		got, target := armFlow(w, pc)
		if got != want {
			t.Errorf("%08x %v: flow %d, want %d", w, inst, got, want)
		}
		for _, a := range inst.Args {
			if rel, ok := a.(arm64asm.PCRel); ok && want != flowNext {
				branches++
				if target != uint64(int64(pc)+int64(rel)) {
					t.Errorf("%08x %v: target %#x", w, inst, target)
				}
			}
		}
	})
	if branches < 5_000 {
		t.Errorf("checked %d branches: too few to mean anything", branches)
	}
}

// Every register that arm64asm names as the destination is among the written
// ones, and memory operands have the base and offset it names.
func TestArmEffectAgainstArm64asm(t *testing.T) {
	written, memory := 0, 0
	eachArmInst(t, func(w uint32, inst arm64asm.Inst) {
		if f, _ := armFlow(w, 0); f != flowNext {
			return
		}
		name := inst.Op.String()
		e := armEffect(w)
		if r, ok := armGPR(inst.Args[0]); ok && !strings.HasPrefix(name, "ST") && !armReadsFirst[inst.Op] {
			written++
			if e.writes&(1<<r) == 0 {
				t.Errorf("%08x %v: writes register %d, known are %#x", w, inst, r, e.writes)
			}
		}
		a, ok := armDecodeAccess(w)
		if !ok || w>>25&5 != 4 || w>>27&7 == 3 {
			return
		}
		for _, arg := range inst.Args {
			if m, ok := arg.(arm64asm.MemImmediate); ok && m.Mode != arm64asm.AddrPostReg {
				memory++
				want := fmt.Sprintf("[%v,#%d]", m.Base, a.offset)
				if a.offset == 0 {
					want = fmt.Sprintf("[%v]", m.Base)
				}
				switch {
				case a.writeback && a.offset != 0:
					want += "!"
				case a.writeback:
					want = fmt.Sprintf("[%v],#%d", m.Base, a.wbOffset)
				}
				if base, _ := armGPR(arm64asm.RegSP(m.Base)); m.String() != want || base != a.base {
					t.Errorf("%08x %v: base %d, operand %s", w, inst, a.base, want)
				}
			}
		}
	})
	if written < 10_000 || memory < 5_000 {
		t.Errorf("checked %d destinations and %d memory operands: too few to mean anything", written, memory)
	}
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

func TestArmBitmask(t *testing.T) {
	tests := []struct {
		n, immr, imms uint32
		want          uint64
		ok            bool
	}{
		{1, 0, 0, 1, true},
		{1, 63, 0, 2, true},
		{1, 0, 62, 0x7FFFFFFFFFFFFFFF, true},
		{0, 0, 0x3C, 0x5555555555555555, true},
		{0, 1, 0x3C, 0xAAAAAAAAAAAAAAAA, true},
		{0, 0, 0x27, 0x00FF00FF00FF00FF, true},
		{0, 8, 0x27, 0xFF00FF00FF00FF00, true},
		{1, 0, 63, 0, false}, // all ones cannot be encoded
		{0, 0, 63, 0, false},
	}
	for _, test := range tests {
		got, ok := armBitmask(test.n<<22 | test.immr<<16 | test.imms<<10)
		if got != test.want || ok != test.ok {
			t.Errorf("N=%d immr=%d imms=%#x: %#x, %v; want %#x, %v", test.n, test.immr, test.imms, got, ok, test.want, test.ok)
		}
	}
}
