package insn

import (
	"slices"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
)

func TestCalls(t *testing.T) {
	tests := []struct {
		arch string
		code []string
		want []Call
	}{
		{AMD64, []string{"e8fb000000 call", "ffd0 call rax", "eb00 jmp to the ret", "c3 ret", "e9f6000000 jmp out", "0f84f0000000 je out"},
			[]Call{
				{PC: 0x400000, Target: 0x400100},
				{PC: 0x40000a, Target: 0x400105, Tail: true},
				{PC: 0x40000f, Target: 0x400105, Tail: true},
			}},
		{ARM64, []string{"40000094 bl", "60023fd6 blr x19", "40000014 b out", "ffffff17 b back"},
			[]Call{
				{PC: 0x400000, Target: 0x400100},
				{PC: 0x400008, Target: 0x400108, Tail: true},
			}},
	}
	for _, test := range tests {
		got, err := Calls(assemble(t, test.arch, test.code...))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.arch, got, test.want)
		}
	}
}

func TestReturns(t *testing.T) {
	c := assemble(t, AMD64,
		"7506 jne to the second nop",
		"90 nop", "4883c418 add 0x18, rsp", "c3 ret",
		"90 nop", "b801000000 mov 1, eax", "4883c418 add 0x18, rsp", "c3 ret",
		"90 nop", "4883c418 add 0x18, rsp", "5d pop rbp", "c3 ret",
		"c20800 ret 8")
	got, err := Returns(c)
	if err != nil {
		t.Fatal(err)
	}
	type early struct {
		offset  int
		present bool
		moved   int
		early   int
	}
	want := []early{
		{7, true, 0x18, 2},
		{18, false, 0, 0}, // the result changes after the nop
		{25, true, 0x20, 19},
		{26, false, 0, 0},
	}
	for i, r := range got {
		e := early{offset: r.Offset}
		if r.Early != nil {
			e = early{r.Offset, true, r.Early.SPMoved, r.Early.Offset}
		}
		if i >= len(want) || e != want[i] || r.Emulated || r.Kind != SiteReturn || r.SPMoved != 0 {
			t.Errorf("return %d: %+v, early %+v", i, r.Site, r.Early)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d returns, want %d", len(got), len(want))
	}
	arm, err := Returns(assemble(t, ARM64, "1f2003d5 nop", "c0035fd6 ret"))
	if err != nil || len(arm) != 1 || !arm[0].Emulated || arm[0].Early != nil || arm[0].Offset != 4 {
		t.Errorf("arm64: %+v, %v", arm, err)
	}
}

// Calls and returns are those that the disassemblers find, in every function
// that they can read to its end.
func TestCallsAndReturnsAgainstDisassemblers(t *testing.T) {
	all := targets() // three of each release; the oldest and the newest will do
	eachOf(t, append(all[:3:3], all[len(all)-3:]...), func(t *testing.T, p *program) {
		functions, calls, returns := 0, 0, 0
		for _, f := range p.funcs {
			c, _ := p.code(f)
			wantCalls, wantReturns, ok := disassemble(c)
			if !ok {
				continue
			}
			functions++
			gotCalls, err := Calls(c)
			if err != nil {
				t.Fatal(err)
			}
			gotReturns, err := Returns(c)
			if err != nil {
				t.Fatal(err)
			}
			var got []Call
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
func disassemble(c Code) (calls []Call, returns []uint64, ok bool) {
	for off := 0; off < len(c.Bytes); {
		pc := c.Entry + uint64(off)
		length, target, isCall, isReturn, known := disassembleOne(c, off)
		if !known {
			return nil, nil, false
		}
		if isCall {
			calls = append(calls, Call{PC: pc, Target: pc + target})
		}
		if isReturn {
			returns = append(returns, pc)
		}
		off += length
	}
	return calls, returns, true
}

func disassembleOne(c Code, off int) (length int, target uint64, isCall, isReturn, known bool) {
	b := c.Bytes[off:]
	if c.Arch == ARM64 {
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
