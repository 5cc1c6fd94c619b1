package insn

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const testEntry = 0x400000

// assemble makes code of lines that start with the bytes of one instruction.
func assemble(tb testing.TB, arch string, lines ...string) Code {
	tb.Helper()
	c := Code{Arch: arch, Entry: testEntry}
	for _, line := range lines {
		b, err := hex.DecodeString(strings.Fields(line)[0])
		if err != nil {
			tb.Fatal(err)
		}
		c.Bytes = append(c.Bytes, b...)
	}
	return c
}

// refText writes a reference as "offset op address access size [=imm]".
func refText(r Ref) string {
	access := ""
	for _, a := range []struct {
		on   bool
		name string
	}{{r.Read, "r"}, {r.Write, "w"}, {r.AddressTaken(), "&"}, {r.Index, "[]"}} {
		if a.on {
			access += a.name
		}
	}
	s := fmt.Sprintf("%#x %s %#x %s %d", r.PC-testEntry, r.Op, r.Addr, access, r.Size)
	if r.Imm != nil {
		s += fmt.Sprintf(" =%d", *r.Imm)
	}
	return s
}

type refsTest struct {
	name string
	code []string
	want []string
}

func checkRefs(t *testing.T, arch string, tests []refsTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			refs, err := Refs(assemble(t, arch, test.code...))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range refs {
				got = append(got, refText(r))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestX86Refs(t *testing.T) { checkRefs(t, AMD64, x86RefsTests) }

var x86RefsTests = []refsTest{
	{"plain accesses", []string{
		"488b0500010000       mov 0x100(rip), rax",
		"c7050001000005000000 movl 5, 0x100(rip)",
		"803d0001000000       cmpb 0, 0x100(rip)",
		"48ff0500010000       incq 0x100(rip)",
		"440f113d00010000     movups xmm15, 0x100(rip)",
		"c5fe6f0500010000     vmovdqu 0x100(rip), ymm0",
		"ff3500010000         pushq 0x100(rip)",
		"0f920500010000       setb 0x100(rip)",
		"f2480f2a0500010000   cvtsi2sdq 0x100(rip), xmm0",
	}, []string{
		"0x0 MOV 0x400107 r 8", "0x7 MOV 0x400111 w 4 =5", "0x11 CMP 0x400118 r 1 =0",
		"0x18 INC 0x40011f rw 8", "0x1f MOVUPS 0x400127 w 16", "0x27  0x40012f  0",
		"0x2f PUSH 0x400135 r 8", "0x35 SETB 0x40013c w 1", "0x3c CVTSI2SD 0x400145 r 8",
	}},
	{"absolute addresses", []string{
		"488b0425205d4c00     mov 0x4c5d20, rax",
		"488b04cd205d4c00     mov 0x4c5d20(,rcx,8), rax",
		"48a18877665544332211 mov 0x1122334455667788, rax",
	}, []string{
		"0x0 MOV 0x4c5d20 r 8", "0x8 MOV 0x4c5d20 r[] 8", "0x10 MOV 0x1122334455667788 r 8",
	}},
	{"thread-local and meaningless operands are no references", []string{
		"64488b0c25f8ffffff mov fs:-8, rcx",
		"0f1f0500010000     nopl 0x100(rip)",
	}, nil},
	{"through a register", []string{
		"488d0500010000 lea 0x100(rip), rax",
		"488b4808       mov 8(rax), rcx",
		"488b14c8       mov (rax,rcx,8), rdx",
		"4883c010       add 16, rax",
		"488910         mov rdx, (rax)",
		"f0480fc108     lock xadd rcx, (rax)",
		"488718         xchg rbx, (rax)",
	}, []string{
		"0x0 LEA 0x400107 & 0", "0x7 MOV 0x40010f r 8", "0xb MOV 0x400107 r[] 8",
		"0x13 MOV 0x400117 w 8", "0x16 XADD 0x400117 rw 8", "0x1b XCHG 0x400117 rw 8",
	}},
	{"index added to a register", []string{
		"488d0500010000 lea 0x100(rip), rax",
		"4801c8         add rcx, rax",
		"488b4808       mov 8(rax), rcx",
		"4801c8         add rcx, rax",
		"488b4808       mov 8(rax), rcx",
	}, []string{"0x0 LEA 0x400107 & 0", "0xa MOV 0x40010f r[] 8", "0x11 MOV 0x40010f r[] 8"}},
	{"constants in registers", []string{
		"ba10270000   mov 10000, edx",
		"891500010000 mov edx, 0x100(rip)",
		"31d2         xor edx, edx",
		"891500010000 mov edx, 0x100(rip)",
		"b401         movb 1, ah",
		"891500010000 mov edx, 0x100(rip)",
		"b601         movb 1, dh",
		"891500010000 mov edx, 0x100(rip)",
	}, []string{
		"0x5 MOV 0x40010b w 4 =10000", "0xd MOV 0x400113 w 4 =0",
		"0x15 MOV 0x40011b w 4 =0", "0x1d MOV 0x400123 w 4",
	}},
	{"comparison of the value read", []string{
		"0fb60500010000 movzbl 0x100(rip), eax",
		"83f82f         cmp 47, eax",
		"488b0500010000 mov 0x100(rip), rax",
		"4885c0         test rax, rax",
		"83f82f         cmp 47, eax",
	}, []string{"0x0 MOVZX 0x400107 r 1 =47", "0xa MOV 0x400111 r 8 =0"}},
	{"a call forgets registers", []string{
		"488d0500010000 lea 0x100(rip), rax",
		"e8fb000000     call",
		"488b4808       mov 8(rax), rcx",
	}, []string{"0x0 LEA 0x400107 & 0"}},
	{"a join forgets registers", []string{
		"488d0500010000 lea 0x100(rip), rax",
		"488b4808       mov 8(rax), rcx",
		"75fa           jne to the mov",
		"488b4808       mov 8(rax), rcx",
	}, []string{"0x0 LEA 0x400107 & 0"}},
	{"an overwritten register is forgotten", []string{
		"488d0500010000 lea 0x100(rip), rax",
		"58             pop rax",
		"488b4808       mov 8(rax), rcx",
	}, []string{"0x0 LEA 0x400107 & 0"}},
	{"unknown bytes are stepped over", []string{
		"06             invalid",
		"488b0500010000 mov 0x100(rip), rax",
		"62f17c48110500010000 vmovups zmm0, 0x100(rip)",
		"488b0500010000 mov 0x100(rip), rax",
	}, []string{"0x1 MOV 0x400108 r 8", "0x8  0x400112  0", "0x12 MOV 0x400119 r 8"}},
}

func TestArmRefs(t *testing.T) { checkRefs(t, ARM64, armRefsTests) }

var armRefsTests = []refsTest{
	{"a page and an offset", []string{
		"9b000090 adrp x27, 0x10000",
		"601340f9 ldr x0, [x27, 32]",
		"7f0700f9 str xzr, [x27, 8]",
		"7b830091 add x27, x27, 32",
		"600340f9 ldr x0, [x27]",
	}, []string{"0x4 LDR 0x410020 r 8", "0x8 STR 0x410008 w 8 =0", "0x10 LDR 0x410020 r 8"}},
	{"an address", []string{
		"83000090 adrp x3, 0x10000",
		"63000591 add x3, x3, 0x140",
		"600440a9 ldp x0, x1, [x3]",
		"600440fd ldr d0, [x3, 8]",
		"6004c03d ldr q0, [x3, 16]",
		"610c4039 ldrb w1, [x3, 3]",
		"610480b9 ldrsw x1, [x3, 4]",
		"61805ff8 ldur x1, [x3, -8]",
		"e40303aa mov x4, x3",
		"610881a9 stp x1, x2, [x3, 16]!",
		"600440a9 ldp x0, x1, [x3]: not known any more",
		"800440a9 ldp x0, x1, [x4]",
	}, []string{
		"0x4 ADD 0x410140 & 0", "0x8 LDP 0x410140 r 8", "0x8 LDP 0x410148 r 8", "0xc LDR 0x410148 r 8",
		"0x10 LDR 0x410150 r 16", "0x14 LDR 0x410143 r 1", "0x18 LDRS 0x410144 r 4", "0x1c LDR 0x410138 r 8",
		"0x24 STP 0x410150 w 8", "0x24 STP 0x410158 w 8", "0x2c LDP 0x410140 r 8", "0x2c LDP 0x410148 r 8",
	}},
	{"an index", []string{
		"83000090 adrp x3, 0x10000",
		"63000591 add x3, x3, 0x140",
		"607862f8 ldr x0, [x3, x2, lsl 3]",
		"606862f8 ldr x0, [x3, x2]",
		"6210028b add x2, x3, x2, lsl 4",
		"400440a9 ldp x0, x1, [x2]",
		"62008052 mov w2, 3",
		"607862f8 ldr x0, [x3, x2, lsl 3]",
	}, []string{
		"0x4 ADD 0x410140 & 0", "0x8 LDR 0x410140 r[] 8", "0xc LDR 0x410140 r[] 8",
		"0x14 LDP 0x410140 r[] 8", "0x14 LDP 0x410148 r[] 8", "0x1c LDR 0x410158 r 8",
	}},
	{"constants", []string{
		"9b000090 adrp x27, 0x10000",
		"01e28452 mov w1, 10000",
		"613b00b9 str w1, [x27, 0x38]",
		"014099d2 movz x1, 0xca00",
		"4173a7f2 movk x1, 0x3b9a, lsl 16",
		"610b00f9 str x1, [x27, 16]",
		"e11f40b2 orr x1, xzr, 0xff",
		"610b00f9 str x1, [x27, 16]",
	}, []string{"0x8 STR 0x410038 w 4 =10000", "0x14 STR 0x410010 w 8 =1000000000", "0x1c STR 0x410010 w 8 =255"}},
	{"comparison of the value read", []string{
		"9b000090 adrp x27, 0x10000",
		"601340f9 ldr x0, [x27, 32]",
		"1f1400f1 cmp x0, 5",
		"601340f9 ldr x0, [x27, 32]",
		"400000b4 cbz x0",
	}, []string{"0x4 LDR 0x410020 r 8 =5", "0xc LDR 0x410020 r 8 =0"}},
	{"ordered and atomic accesses", []string{
		"83000090 adrp x3, 0x10000",
		"63000591 add x3, x3, 0x140",
		"61fc5fc8 ldaxr x1, [x3]",
		"61fc04c8 stlxr w4, x1, [x3]",
		"61fc9fc8 stlr x1, [x3]",
		"61fcdfc8 ldar x1, [x3]",
		"6200e1f8 ldaddal x1, x2, [x3]",
		"6280e1f8 swpal x1, x2, [x3]",
		"62fce1c8 casal x1, x2, [x3]",
	}, []string{
		"0x4 ADD 0x410140 & 0", "0x8 LDXR 0x410140 r 8", "0xc STXR 0x410140 w 8", "0x10 STLR 0x410140 w 8",
		"0x14 LDAR 0x410140 r 8", "0x18 LDADD 0x410140 rw 8", "0x1c SWP 0x410140 rw 8", "0x20 CAS 0x410140 rw 8",
	}},
	{"relative to the program counter", []string{
		"05020058 ldr x5, .+64",
		"05020010 adr x5, .+64",
	}, []string{"0x0 LDR 0x400040 r 8", "0x4 ADR 0x400044 & 0"}},
	{"a call forgets registers", []string{
		"9b000090 adrp x27, 0x10000",
		"40000094 bl",
		"601340f9 ldr x0, [x27, 32]",
	}, nil},
	{"a join forgets registers", []string{
		"9b000090 adrp x27, 0x10000",
		"601340f9 ldr x0, [x27, 32]",
		"e0ffff35 cbnz w0, to the ldr",
	}, nil},
}

func TestIndexBounds(t *testing.T) {
	tests := []struct {
		arch string
		code []string
		want []int64
	}{
		{AMD64, []string{"3c2f cmp 47, al", "7200 jb"}, []int64{47}},
		{AMD64, []string{"4883f92e cmp 46, rcx", "0f8700000000 ja"}, []int64{47}},
		{AMD64, []string{"4883f92e cmp 46, rcx", "7500 jne", "803d0001000005 cmpb 5, 0x100(rip)", "7200 jb"}, nil},
		{ARM64, []string{"5fbc0071 cmp w2, 47", "43000054 b.lo"}, []int64{47}},
		{ARM64, []string{"5fbc00f1 cmp x2, 47", "49000054 b.ls"}, []int64{48}},
		{ARM64, []string{"5fbc0071 cmp w2, 47", "41000054 b.ne"}, nil},
	}
	for _, test := range tests {
		if got := indexBounds(assemble(t, test.arch, test.code...)); !slices.Equal(got, test.want) {
			t.Errorf("%s %q: %d, want %d", test.arch, test.code, got, test.want)
		}
	}
}

func TestRefsRefuses(t *testing.T) {
	if _, err := Refs(Code{Arch: "riscv64", Bytes: []byte{0}}); !errors.Is(err, ErrUnsupportedArch) {
		t.Errorf("riscv64: %v", err)
	}
	if _, err := Refs(Code{Arch: AMD64}); !errors.Is(err, ErrNoCode) {
		t.Errorf("no bytes: %v", err)
	}
}
