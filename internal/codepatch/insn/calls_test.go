package insn

import (
	"reflect"
	"slices"
	"testing"
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
		if i >= len(want) || e != want[i] || r.Frame != nil || r.Emulated || r.Kind != SiteReturn || r.SPMoved != 0 {
			t.Errorf("return %d: %+v, early %+v", i, r.Site, r.Early)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d returns, want %d", len(got), len(want))
	}
	large, err := Returns(assemble(t, AMD64, "4881c420050000 add 0x520, rsp", "5d pop rbp", "90 nop", "c3 ret",
		"4881c420050000 add 0x520, rsp", "b801000000 mov 1, eax", "c3 ret"))
	if err != nil || len(large) != 2 || large[0].Frame == nil || large[0].Frame.Offset != 0 || large[0].Frame.SPMoved != 0x528 || large[1].Frame != nil {
		t.Errorf("large frames: %+v, %v", large, err)
	}
	arm, err := Returns(assemble(t, ARM64, "1f2003d5 nop", "c0035fd6 ret"))
	if err != nil || len(arm) != 1 || !arm[0].Emulated || arm[0].Early != nil || arm[0].Offset != 4 {
		t.Errorf("arm64: %+v, %v", arm, err)
	}
}

func TestExits(t *testing.T) {
	exit := []string{"e8fb000000 call", "488b5c2410 mov 16(rsp), rbx", "488b442408 mov 8(rsp), rax", "4883c418 add 0x18, rsp", "5d pop rbp", "c3 ret"}
	want := Exit{PC: 0x400000, Target: 0x400100, After: 0x400005, Results: []int{8, 16}}
	got, ok := Exits(assemble(t, AMD64, exit...), 2)
	if !ok || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("%+v, %v, want %+v", got, ok, want)
	}
	long := append([]string{exit[0], exit[1], "488b842400010000 mov 256(rsp), rax"}, exit[3:]...)
	if got, ok := Exits(assemble(t, AMD64, long...), 2); !ok || got[0].After != 0x40000a {
		t.Errorf("a long load: %+v, %v", got, ok)
	}
	through := append([]string{"ffd0 call rax"}, exit[1:]...)
	if got, ok := Exits(assemble(t, AMD64, through...), 2); !ok || got[0].Target != 0 || !slices.Equal(got[0].Results, want.Results) {
		t.Errorf("a call through a register: %+v, %v", got, ok)
	}
	for name, code := range map[string][]string{
		"one result only":             {exit[0], exit[1], exit[3], exit[4], exit[5]},
		"a result from a register":    {exit[0], exit[1], exit[2], "4889c8 mov rcx, rax", exit[3], exit[4], exit[5]},
		"loads before the frame ends": {exit[0], "4883c408 add 8, rsp", exit[1], exit[2], exit[3], exit[4], exit[5]},
		"no call":                     exit[1:],
		"a join":                      append([]string{"7405 je to the loads"}, exit...),
		"a second return":             append(slices.Clone(exit), "31c0 xor eax, eax", "c3 ret"),
		"an indexed load":             {exit[0], exit[1], "488b440c08 mov 8(rsp+rcx), rax", exit[3], exit[4], exit[5]},
	} {
		if got, ok := Exits(assemble(t, AMD64, code...), 2); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
