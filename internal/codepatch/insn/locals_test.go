package insn

import (
	"slices"
	"testing"
)

func TestLocalArg(t *testing.T) {
	const call = "e8fb000000 call"
	for _, test := range []struct {
		name   string
		code   []string
		n      int
		offset int
		ok     bool
	}{
		{"short", []string{"488d5c2448 lea rbx, 0x48(rsp)", call}, 1, 0x48, true},
		{"long", []string{"488d9c2498000000 lea rbx, 0x98(rsp)", call}, 1, 0x98, true},
		{"first", []string{"488d442458 lea rax, 0x58(rsp)", "488d5c2430 lea rbx, 0x30(rsp)", call}, 0, 0x58, true},
		{"the last one", []string{"488d5c2448 lea rbx, 0x48(rsp)", "488d5c2450 lea rbx, 0x50(rsp)", call}, 1, 0x50, true},
		{"another register", []string{"488d5c2448 lea rbx, 0x48(rsp)", call}, 0, 0, false},
		{"overwritten", []string{"488d5c2448 lea rbx, 0x48(rsp)", "31db xor ebx, ebx", call}, 1, 0, false},
		{"of the image", []string{"488d1d48000000 lea rbx, 0x48(rip)", call}, 1, 0, false},
		{"relative to another register", []string{"488d5b48 lea rbx, 0x48(rbx)", call}, 1, 0, false},
		{"half", []string{"8d5c2448 lea ebx, 0x48(rsp)", call}, 1, 0, false},
		{"before another call", []string{"488d5c2448 lea rbx, 0x48(rsp)", call, call}, 1, 0, false},
		{"the stack moves", []string{"488d5c2448 lea rbx, 0x48(rsp)", "4883ec18 sub rsp, 0x18", call}, 1, 0, false},
		{"another way", []string{"488d5c2448 lea rbx, 0x48(rsp)", "90 nop", call, "75f8 jne to the nop"}, 1, 0, false},
	} {
		c := assemble(t, AMD64, test.code...)
		pc := c.Entry
		walk(c, func(s step) {
			if s.flow == flowCall {
				pc = c.Entry + uint64(s.off)
			}
		})
		offset, ok := LocalArg(c, 22, pc, test.n)
		if ok != test.ok || ok && offset != test.offset {
			t.Errorf("%s: %#x, %v, want %#x, %v", test.name, offset, ok, test.offset, test.ok)
		}
	}
	c := assemble(t, ARM64, "e1430191 add x1, sp, #0x50", "40000094 bl", "c0035fd6 ret")
	if offset, ok := LocalArg(c, 22, c.Entry+4, 1); !ok || offset != 0x50 {
		t.Errorf("arm64: %#x, %v", offset, ok)
	}
	if _, ok := LocalArg(c, 22, c.Entry+4, 0); ok {
		t.Error("arm64: a word that is unknown has a variable")
	}
	if _, ok := LocalArg(c, 17, c.Entry+4, 1); ok {
		t.Error("arm64: arguments are on the stack")
	}
}

func TestAhead(t *testing.T) {
	const call = "e8fb000000 call"
	for _, test := range []struct {
		name string
		code []string
		want []int
	}{
		{"store of a loop", []string{call, "84c0 test al, al", "740e je to the return", "488b5c2448 mov rbx, 0x48(rsp)", "48c744244800000000 movq 0, 0x48(rsp)", "c3 ret"}, []int{14}},
		{"call", []string{call, "488b5c2448 mov rbx, 0x48(rsp)", "e8fb000000 call", "c3 ret"}, []int{10}},
		{"both ways", []string{call, "84c0 test al, al", "740d je to the second lea", "488d442458 lea rax, 0x58(rsp)", "488d8424a8000000 lea rax, 0xa8(rsp)", "488d8424a8000000 lea rax, 0xa8(rsp)", "c3 ret"},
			[]int{14, 22}},
		{"overwritten", []string{call, "4889442448 mov 0x48(rsp), rax", "488d8424a8000000 lea rax, 0xa8(rsp)", "c3 ret"}, nil},
		{"partly", []string{call, "488944244c mov 0x4c(rsp), rax", "488d8424a8000000 lea rax, 0xa8(rsp)", "c3 ret"}, nil},
		{"beside", []string{call, "4889442450 mov 0x50(rsp), rax", "488d8424a8000000 lea rax, 0xa8(rsp)", "c3 ret"}, []int{10}},
		{"computed call", []string{call, "ffd1 call rcx", "488d8424a8000000 lea rax, 0xa8(rsp)", "c3 ret"}, nil},
		{"a pointer", []string{call, "488b8390000000 mov rax, 0x90(rbx)", "c3 ret"}, nil},
		{"a register of stubs", []string{call, "4d89d4 mov r12, r10", "488d8424a8000000 lea rax, 0xa8(rsp)", "c3 ret"}, nil},
		{"loop", []string{call, "ebfe jmp to itself"}, nil},
	} {
		c := assemble(t, AMD64, test.code...)
		var got []int
		for _, s := range Ahead(c, 22, c.Entry, 0x48, func(p Place) bool { return p.Roomy || p.Call }) {
			got = append(got, s.Offset)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
