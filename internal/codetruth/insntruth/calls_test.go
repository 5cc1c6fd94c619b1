package insntruth

import (
	"slices"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// Calls and returns are those that the disassemblers find, in every function
// that they can read to its end.
func TestCallsAndReturnsAgainstDisassemblers(t *testing.T) {
	all := targets(t) // three of each release; the oldest and the newest will do
	eachOf(t, append(testtarget.Rare(t, all[:3]...), all[len(all)-3:]...), func(t *testing.T, p *program) {
		functions, calls, returns := 0, 0, 0
		for _, f := range p.funcs {
			c, _ := p.code(f)
			wantCalls, wantReturns, ok := disassemble(c)
			if !ok {
				continue
			}
			functions++
			gotCalls, err := insn.Calls(c)
			if err != nil {
				t.Fatal(err)
			}
			gotReturns, err := insn.Returns(c)
			if err != nil {
				t.Fatal(err)
			}
			var got []insn.Call
			for _, call := range gotCalls {
				if !call.Tail {
					got = append(got, call)
				}
			}
			var ends []uint64
			for _, r := range gotReturns {
				ends = append(ends, r.PC)
			}
			if !slices.Equal(got, wantCalls) || !slices.Equal(ends, wantReturns) {
				t.Errorf("%s: calls %+v, want %+v; returns %#x, want %#x", f.Name, got, wantCalls, ends, wantReturns)
			}
			calls += len(got)
			returns += len(ends)
		}
		if functions < 1000 || calls < 5000 || returns < 1000 {
			t.Errorf("%d functions, %d calls, %d returns: too few to mean anything", functions, calls, returns)
		}
	})
}

// disassemble finds calls and returns with golang.org/x/arch alone. ok is false
// for a function with an instruction it does not know.
func disassemble(c insn.Code) (calls []insn.Call, returns []uint64, ok bool) {
	for off := 0; off < len(c.Bytes); {
		pc := c.Entry + uint64(off)
		length, target, isCall, isReturn, known := disassembleOne(c, off)
		if !known {
			return nil, nil, false
		}
		if isCall {
			calls = append(calls, insn.Call{PC: pc, Target: pc + target})
		}
		if isReturn {
			returns = append(returns, pc)
		}
		off += length
	}
	return calls, returns, true
}

func disassembleOne(c insn.Code, off int) (length int, target uint64, isCall, isReturn, known bool) {
	b := c.Bytes[off:]
	if c.Arch == insn.ARM64 {
		inst, err := arm64asm.Decode(b)
		if err != nil {
			return 4, 0, false, false, len(b) >= 4 // data and newer instructions are four bytes too
		}
		rel, isRel := inst.Args[0].(arm64asm.PCRel)
		return 4, uint64(rel), inst.Op == arm64asm.BL && isRel, inst.Op == arm64asm.RET, true
	}
	inst, err := x86asm.Decode(b, 64)
	if err != nil || !x86asmKnows(inst, b) {
		return 0, 0, false, false, false
	}
	rel, isRel := inst.Args[0].(x86asm.Rel)
	return inst.Len, uint64(int64(rel) + int64(inst.Len)), inst.Op == x86asm.CALL && isRel, inst.Op == x86asm.RET, true
}

// x86asmKnows says whether x86asm v0.32 measures an instruction rightly: it
// takes the prefix of an unknown instruction (ADCX, ENDBR64) for one of its
// own, without a name, and reads a ModRM byte too many after VZEROUPPER.
func x86asmKnows(inst x86asm.Inst, b []byte) bool {
	return inst.Op != 0 && !(len(b) >= 3 && b[0] == 0xC5 && b[2] == 0x77)
}
