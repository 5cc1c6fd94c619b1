package codetruth

import (
	"errors"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// TestRefusals holds what must not be patched: code between the labels func and end, a site, and words of the reason.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name, arch string
		kind       insn.SiteKind
		code       string
		reason     string
	}{
		{"branch between", insn.AMD64, insn.SitePush, "func: site: push %rbp\n mid: mov %rsp, %rbp\n test %rax, %rax\n je mid\n ret\n end:",
			"a branch leads to 0x400001, among the displaced instructions"},
		{"branch back between", insn.AMD64, insn.SiteEntry, "func: site: inc %eax\n mid: dec %ecx\n jne mid\n nop\n ret\n end:",
			"a branch leads to 0x400002"},
		{"own branch between", insn.AMD64, insn.SiteEntry, "func: site: jmp mid\n int3\n mid: nop\n nop\n ret\n end:",
			"too few for a jump, and other code follows at 0x400003"},
		{"branch into an instruction", insn.AMD64, insn.SitePush, "func: site: push %rbp\n mov %rsp, %rbp\n sub $16, %rsp\n je func + 6\n ret\n end:",
			"which is inside an instruction"},
		{"jump table", insn.AMD64, insn.SiteEntry, "func: jmp *%rax\n site: mov %rsp, %rcx\n mov %rsp, %rdx\n ret\n end:",
			"jump to a computed address"},
		{"jump table at the same depth", insn.AMD64, insn.SiteEntry, "func: site: mov %rsp, %rcx\n mov %rsp, %rdx\n jmp *%rax\n end:",
			"may lead to the displaced instruction at 0x400003"},
		{"jump table at an unknown depth", insn.AMD64, insn.SitePush, "func: site: push %rbp\n mov %rsp, %rbp\n and $-16, %rsp\n jmp *%rax\n end:",
			"jump to a computed address"},
		{"call displaced", insn.AMD64, insn.SiteNop, "func: site: nop\n call out\n ret\n end: out: ret",
			"would leave a return address in the stub"},
		{"call of a register", insn.AMD64, insn.SiteCall, "func: nop\n nop\n nop\n nop\n site: call *%rax\n ret\n end:",
			"too short to be replaced by a call"},
		{"long call", insn.AMD64, insn.SiteCall, "func: site: .byte 0x2e, 0xe8\n .long out - . - 4\n ret\n end: out: ret",
			"a call of 6 bytes"},
		{"branch of 16 bits", insn.AMD64, insn.SiteEntry, "func: site: push %rbp\n mov %rsp, %rbp\n push %rax\n .byte 0x66, 0xe9, 0, 0, 0, 0\n ret\n end:",
			"unknown instruction"},
		{"unknown instruction", insn.AMD64, insn.SiteEntry, "func: site: push %rbp\n mov %rsp, %rbp\n push %rax\n .byte 0x06\n ret\n end:",
			"unknown instruction at 0x400005"},
		{"vector instruction displaced", insn.AMD64, insn.SiteEntry, "func: site: vaddps %zmm1, %zmm2, %zmm3\n ret\n end:",
			"unknown instruction"},
		{"unknown instruction displaced", insn.AMD64, insn.SiteEntry, "func: site: cpuid\n mov %rsp, %rbp\n ret\n end:",
			"is not an instruction that can be moved"},
		{"system call", insn.AMD64, insn.SiteEntry, "func: site: mov %rax, %rcx\n syscall\n ret\n end:",
			"SYSCALL at 0x400003 is not an instruction that can be moved"},
		{"trap", insn.AMD64, insn.SiteEntry, "func: site: nop\n ud2\n nop\n nop\n end:", "too few for a jump"},
		{"transaction", insn.AMD64, insn.SiteEntry, "func: site: xbegin away\n away: ret\n end:", "XBEGIN at 0x400000 is not"},
		{"loop displaced", insn.AMD64, insn.SiteEntry, "func: site: jrcxz away\n mov %rax, %rcx\n away: ret\n end:",
			"JRCXZ at 0x400000 is not"},
		{"addresses of 32 bits", insn.AMD64, insn.SiteEntry, "func: site: mov func(%eip), %rax\n ret\n end:", "uses 32-bit addresses"},
		{"no room at the end", insn.AMD64, insn.SiteBody, "func: test %rax, %rax\n je site\n nop\n site: ret\n int3\n int3\n int3\n end:",
			"4 bytes at 0x400006 are too few for a jump, and the function ends there"},
		{"code behind a return", insn.AMD64, insn.SiteBody, "func: test %rax, %rax\n je site\n nop\n site: ret\n nop\n nop\n nop\n nop\n end:",
			"other code follows"},
		{"no way to the site", insn.AMD64, insn.SiteBody, "func: jmp site\n nop\n ret\n site: ret\n end:", "too few"},
		{"a way to a return", insn.AMD64, insn.SiteReturn, "func: test %rax, %rax\n je site\n mov 8(%rsp), %rcx\n mov %rcx, 16(%rsp)\n site: ret\n end:",
			"a branch leads to the return"},
		{"only a return", insn.AMD64, insn.SiteReturn, "func: site: ret\n end:", "nothing precedes the return"},
		{"little before a return", insn.AMD64, insn.SiteReturn, "func: mov %rsp, %rbp\n site: ret\n end:", "the 3 bytes before the return are too few"},
		{"not at an instruction", insn.AMD64, insn.SiteEntry, "func: .byte 0x48\n site: .byte 0x89, 0xe5\n nop\n nop\n ret\n end:",
			"not the start of an instruction"},
		{"no stack check", insn.AMD64, insn.SiteStackCheck, "func: site: push %rbp\n mov %rsp, %rbp\n push %rax\n ret\n end:",
			"not a conditional branch"},

		{"unknown", insn.ARM64, insn.SiteEntry, "func: site: .word 0x04000000\n ret\n end:", "unknown instruction"},
		{"exclusive load", insn.ARM64, insn.SiteEntry, "func: site: ldxr x1, [x0]\n stxr w2, x1, [x0]\n ret\n end:", "exclusive"},
		{"between exclusive accesses", insn.ARM64, insn.SiteEntry, "func: ldaxr x1, [x0]\n site: add x1, x1, #1\n stlxr w2, x1, [x0]\n ret\n end:",
			"between an exclusive load and its store"},
		{"call of the link register", insn.ARM64, insn.SiteCall, "func: site: blr x30\n ret\n end:", "cannot be converted to a jump"},
		{"vector literal", insn.ARM64, insn.SiteEntry, "func: site: ldr d0, func\n ret\n end:", "without a free register"},
		{"literal without a register", insn.ARM64, insn.SiteEntry, "func: site: ldr xzr, func\n ret\n end:", "without a free register"},
		{"system call", insn.ARM64, insn.SiteEntry, "func: site: svc #0\n ret\n end:", "raises an exception"},
		{"breakpoint", insn.ARM64, insn.SiteEntry, "func: site: brk #0\n ret\n end:", "raises an exception"},
		{"cache operation", insn.ARM64, insn.SiteEntry, "func: site: dc cvau, x0\n ret\n end:", "cannot be moved"},
		{"always branching condition", insn.ARM64, insn.SiteBranch, "func: site: b.al func\n ret\n end:", "conditional branch 0x5400000e"},
		{"misaligned", insn.ARM64, insn.SiteEntry, "func: .byte 0, 1\n site: .byte 2, 3\n ret\n end:", "not the start of an instruction"},
	} {
		t.Run(test.arch+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			const base = 0x400000
			a := assemble(t, test.arch, test.code)
			f := codepatch.Function{Arch: test.arch, Entry: base, Code: a.code[:a.labels["end"]]}
			_, err := codepatch.Plan(f, insn.Site{PC: base + uint64(a.labels["site"]), Kind: test.kind})
			if !errors.Is(err, codepatch.ErrRefused) || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("error %v, want one with %q", err, test.reason)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
		})
	}
}
