package insn

import "testing"

// prologueShapes are prologues as the toolchains write them, before a body of
// one return and the code that grows the stack.
var prologueShapes = []struct {
	name  string
	arch  string
	minor int
	code  []string
	want  Site // PC, Len, Emulated and Since are checked by themselves
}{
	{"plain, before 1.17", AMD64, 16, []string{
		"64488b0c25f8ffffff mov fs:-8, rcx", "483b6110 cmp 0x10(rcx), rsp", "7605 jbe grow",
		"4883ec18 sub 0x18, rsp", "c3 ret", "e8fb000000 grow: call", "e9e2ffffff jmp entry",
	}, Site{Offset: 13, Kind: SiteStackCheck, CheckTaken: true, GReg: "RCX"}},
	{"plain in a shared object, before 1.17", AMD64, 12, []string{
		"48c7c1f8ffffff mov -8, rcx", "64488b09 mov fs:(rcx), rcx", "483b6110 cmp 0x10(rcx), rsp",
		"0f8605000000 jbe grow", "4883ec18 sub 0x18, rsp", "c3 ret", "e8fb000000 grow: call", "e9dcffffff jmp entry",
	}, Site{Offset: 15, Kind: SiteStackCheck, CheckTaken: true, GReg: "RCX"}},
	{"huge frame, before 1.17", AMD64, 12, []string{
		"64488b0c25f8ffffff mov fs:-8, rcx", "488b7110 mov 0x10(rcx), rsi", "4881fedefaffff cmp -1314, rsi",
		"0f841b000000 je grow", "488d842470030000 lea 0x370(rsp), rax", "4829f0 sub rsi, rax",
		"483db0890100 cmp 0x189b0, rax", "7608 jbe grow", "4881ecc0860100 sub 0x186c0, rsp", "c3 ret",
		"e8fb000000 grow: call", "e9c1ffffff jmp entry",
	}, Site{Offset: 43, Kind: SiteStackCheck, CheckTaken: true, GReg: "RCX"}},
	{"plain, 1.17 to 1.20", AMD64, 20, []string{
		"493b6610 cmp 0x10(r14), rsp", "7605 jbe grow", "4883ec18 sub 0x18, rsp", "c3 ret",
		"e8fb000000 grow: call", "ebee jmp entry",
	}, Site{Offset: 4, Kind: SiteStackCheck, CheckTaken: true, GReg: "R14"}},
	{"plain, 1.21 on", AMD64, 22, []string{
		"493b6610 cmp 0x10(r14), rsp", "7605 jbe grow", "55 push rbp", "4889e5 mov rsp, rbp", "c3 ret",
		"e8fb000000 grow: call", "ebee jmp entry",
	}, Site{Offset: 4, Kind: SiteStackCheck, CheckTaken: true, GReg: "R14"}},
	{"a check by another branch, 1.21 on", AMD64, 22, []string{
		"493b6610 cmp 0x10(r14), rsp", "7205 jb grow", "55 push rbp", "4889e5 mov rsp, rbp", "c3 ret",
		"e8fb000000 grow: call", "ebee jmp entry",
	}, Site{Offset: 6, Kind: SitePush, GReg: "R14"}},
	{"huge frame, 1.21 on", AMD64, 27, []string{
		"4989e4 mov rsp, r12", "4981ec38860100 sub 0x18638, r12", "720b jb grow", "4d3b6610 cmp 0x10(r14), r12",
		"7605 jbe grow", "55 push rbp", "4889e5 mov rsp, rbp", "c3 ret", "e8fb000000 grow: call", "e9dfffffff jmp entry",
	}, Site{Offset: 16, Kind: SiteStackCheck, CheckTaken: true, GReg: "R14"}},
	{"a call before the check that is not made again", AMD64, 27, []string{
		"4889442408 mov rax, 8(rsp)", "e8fb000000 call hook", "488b442408 mov 8(rsp), rax", "493b6610 again: cmp 0x10(r14), rsp",
		"7605 jbe grow", "55 push rbp", "4889e5 mov rsp, rbp", "c3 ret", "e8fb000000 grow: call", "ebee jmp again",
	}, Site{Offset: 19, Kind: SiteStackCheck, CheckTaken: true, GReg: "R14"}},
	{"no check, 1.21 on", AMD64, 21, []string{"55 push rbp", "4889e5 mov rsp, rbp", "5d pop rbp", "c3 ret"},
		Site{Offset: 0, Kind: SitePush, GReg: "R14"}},
	{"no check, arguments on the stack", AMD64, 16, []string{
		"4883ec40 sub 0x40, rsp", "48896c2438 mov rbp, 0x38(rsp)", "8b442450 mov 0x50(rsp), eax",
		"0fbae00c bt 12, eax", "7300 jae", "c3 ret",
	}, Site{Offset: 17, Kind: SiteBranch, SPMoved: 64}},
	{"no check, an argument on the stack overwritten", AMD64, 16, []string{
		"4883ec40 sub 0x40, rsp", "4889442450 mov rax, 0x50(rsp)", "7300 jae", "c3 ret",
	}, Site{Kind: SiteEntry}},
	{"no check, an argument in a register overwritten", AMD64, 18, []string{
		"4883ec18 sub 0x18, rsp", "488d5c2420 lea 0x20(rsp), rbx", "e8fb000000 call", "c3 ret",
	}, Site{Kind: SiteEntry, GReg: "R14"}},
	{"a nop that only new kernels emulate", AMD64, 18, []string{
		"0f1f440000 nop of five bytes", "4885c0 test rax, rax", "7500 jne", "c3 ret",
	}, Site{Offset: 8, Kind: SiteBranch, GReg: "R14"}},
	{"a loop to the first branch", AMD64, 18, []string{"4885c0 test rax, rax", "75fb jne to the test", "c3 ret"},
		Site{Kind: SiteEntry, GReg: "R14"}},
	{"huge frame", ARM64, 22, []string{
		"900b40f9 ldr x16, [x28, 16]", "1bc890d2 mov x27, 34368", "3b00a0f2 movk x27, 1, lsl 16",
		"f1633beb subs x17, sp, x27", "a3000054 b.lo grow", "3f0210eb cmp x17, x16", "69000054 b.ls grow",
		"fe0f1df8 str x30, [sp, -48]!", "c0035fd6 ret", "e3031eaa grow: mov x3, x30", "40000094 bl", "f5ffff17 b entry",
	}, Site{Offset: 24, Kind: SiteStackCheck, CheckTaken: true, GReg: "R28"}},
	{"no check", ARM64, 22, []string{
		"fe0f1bf8 str x30, [sp, -80]!", "fd831ff8 stur x29, [sp, -8]", "e02f00f9 str x0, [sp, 88]",
		"81006037 tbnz w1, 12", "c0035fd6 ret",
	}, Site{Offset: 12, Kind: SiteBranch, SPMoved: 80, GReg: "R28"}},
	{"no check, arguments on the stack", ARM64, 17, []string{
		"fe0f1bf8 str x30, [sp, -80]!", "e02f00f9 str x0, [sp, 88]", "81006037 tbnz w1, 12", "c0035fd6 ret",
	}, Site{Kind: SiteEntry, GReg: "R28"}},
}

// prologueSite is EntrySite for a function of which all argument words matter.
func prologueSite(c Code, minor int) (Site, error) {
	return EntrySite(c, minor, len(callABIs[c.Arch].regs))
}

func TestPrologueShapes(t *testing.T) {
	for _, test := range prologueShapes {
		t.Run(test.arch+"/"+test.name, func(t *testing.T) {
			c := assemble(t, test.arch, test.code...)
			got, err := prologueSite(c, test.minor)
			if err != nil {
				t.Fatal(err)
			}
			e, emulated := EmulatedAt(c, got.PC)
			if got.PC != testEntry+uint64(got.Offset) || got.Emulated != emulated || got.Since != e.Since ||
				got.Emulated != (test.want.Kind != SiteEntry) || got.Len < 1 {
				t.Errorf("inconsistent: %+v", got)
			}
			got.PC, got.Len, got.Emulated, got.Since = 0, 0, false, Kernel{}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// Fewer argument words to keep give a cheaper site.
func TestEntrySiteWords(t *testing.T) {
	c := assemble(t, AMD64,
		"4883ec18 sub 0x18, rsp", "488d5c2420 lea 0x20(rsp), rbx", "e8fb000000 call", "c3 ret")
	for words, want := range []SiteKind{SiteCall, SiteCall, SiteEntry, SiteEntry} {
		s, err := EntrySite(c, 20, words)
		if err != nil {
			t.Fatal(err)
		}
		if s.Kind != want || want == SiteCall && s.SPMoved != 0x18 {
			t.Errorf("%d words to keep: %+v, want kind %v", words, s, want)
		}
	}
}

func TestEmulatedAt(t *testing.T) {
	tests := []struct {
		arch, code string
		want       Emulation // zero: not emulated
	}{
		{AMD64, "55 push rbp", emulX86Push},
		{AMD64, "4155 push r13", emulX86Push},
		{AMD64, "4855 push with a useless prefix", Emulation{}},
		{AMD64, "6855000000 push of a constant", Emulation{}},
		{AMD64, "5d pop rbp", Emulation{}},
		{AMD64, "90 nop", emulX86Nop},
		{AMD64, "6690 nop of two bytes", emulX86LongNop},
		{AMD64, "0f1f440000 nop of five bytes", emulX86LongNop},
		{AMD64, "f390 pause", Emulation{}},
		{AMD64, "4190 xchg r8, rax", Emulation{}},
		{AMD64, "7600 jbe", emulX86Branch},
		{AMD64, "0f8600000000 jbe near", emulX86Branch},
		{AMD64, "2e7600 jbe with a hint", Emulation{}},
		{AMD64, "660f8600000000 jbe with an operand size", Emulation{}},
		{AMD64, "e8fb000000 call", emulX86Branch},
		{AMD64, "e9fb000000 jmp", emulX86Branch},
		{AMD64, "eb00 jmp short", emulX86Branch},
		{AMD64, "e300 jrcxz", Emulation{}},
		{AMD64, "ffe0 jmp rax", Emulation{}},
		{AMD64, "ffd0 call rax", Emulation{}},
		{AMD64, "c3 ret", Emulation{}},
		{AMD64, "493b6610 cmp", Emulation{}},
		{ARM64, "c0035fd6 ret", emulArmBranch},
		{ARM64, "69000054 b.ls", emulArmBranch},
		{ARM64, "40000094 bl", emulArmBranch},
		{ARM64, "02000014 b", emulArmBranch},
		{ARM64, "400000b4 cbz", emulArmBranch},
		{ARM64, "81006037 tbnz", emulArmBranch},
		{ARM64, "60023fd6 blr x19", emulArmBranch},
		{ARM64, "60021fd6 br x19", emulArmBranch},
		{ARM64, "ff0b5fd6 retaa", Emulation{}},
		{ARM64, "9b000090 adrp", emulArmAddr},
		{ARM64, "05020010 adr", emulArmAddr},
		{ARM64, "1f2003d5 nop", emulArmNop},
		{ARM64, "05020058 ldr of a literal", Emulation{}},
		{ARM64, "fe0f1df8 str", Emulation{}},
	}
	for _, test := range tests {
		c := assemble(t, test.arch, test.code)
		got, ok := EmulatedAt(c, testEntry)
		if ok != (test.want != Emulation{}) || ok && got != test.want {
			t.Errorf("%s %s: %+v, %v; want %+v", test.arch, test.code, got, ok, test.want)
		}
		if _, ok := EmulatedAt(c, testEntry+uint64(len(c.Bytes))); ok {
			t.Errorf("%s %s: something is emulated behind the end", test.arch, test.code)
		}
	}
	for _, e := range []Emulation{emulX86Branch, emulX86Nop, emulX86Push, emulX86LongNop, emulArmBranch, emulArmAddr, emulArmNop} {
		if e.Since == (Kernel{}) || e.Instr == "" || callABIs[e.Arch].stackArgs == 0 {
			t.Errorf("incomplete: %+v", e)
		}
	}
}

func TestABI(t *testing.T) {
	for _, test := range []struct {
		arch  string
		minor int
		inReg bool
		g     string
	}{
		{AMD64, 16, false, ""},
		{AMD64, 17, true, "R14"},
		{AMD64, 27, true, "R14"},
		{ARM64, 12, false, "R28"},
		{ARM64, 17, false, "R28"},
		{ARM64, 18, true, "R28"},
		{"riscv64", 20, false, ""},
	} {
		if inReg, g := ArgsInRegs(test.arch, test.minor), GReg(test.arch, test.minor); inReg != test.inReg || g != test.g {
			t.Errorf("%s, Go 1.%d: arguments in registers %v, g in %q; want %v, %q", test.arch, test.minor, inReg, g, test.inReg, test.g)
		}
	}
}
