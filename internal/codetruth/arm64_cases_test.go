package codetruth

import "github.com/loupe-go/loupe/internal/codepatch/insn"

// armCallees stand before the functions; see x86Callees.
const armCallees = `
	.p2align 3
data:
	.quad 0x1122334455667788, 0x81020304f5060708
morestack:
	str xzr, [x28, #0x10]
	ldr x16, [x28, #0x28]
	add x16, x16, #1
	str x16, [x28, #0x28]
	ret
callee:
	str x30, [x0, #8]
	ldr x16, [x0, #16]
	add x16, x16, x1
	str x16, [x0, #16]
	add x2, x1, #7
	ret
`

const armFrame = `
	stur x29, [sp, #-8]
	sub x29, sp, #8
	str x1, [sp, #16]
	bl callee
	ldr x3, [sp, #16]
	add x2, x2, x3
	ldp x29, x30, [sp, #-8]
	add sp, sp, #48
	ret
`

// armLeaf makes a case of one instruction in a function that calls nothing.
func armLeaf(name string, kind insn.SiteKind, before, site, after string) runCase {
	return runCase{name: name, kind: kind, code: armCallees + "func:\n" + before + "\n" + probeLine + "site:\n" + site + "\n" + after + "\nend:\n"}
}

func (c runCase) withFlags() runCase { c.live = true; return c }
func (c runCase) withFault() runCase { c.fault = true; return c }

// armTwoWays is what follows a conditional branch to `away`.
const armTwoWays = `
	add x3, x3, #1
	ret
away:
	sub x3, x3, #1
	ret
`

var arm64Cases = []runCase{
	{name: "stack check", kind: insn.SiteStackCheck, code: armCallees + `
func:
	ldr x16, [x28, #16]
	cmp sp, x16
site:
	b.ls grow
` + probeLine + `
	str x30, [sp, #-48]!
` + armFrame + `
grow:
	mov x3, x30
	bl morestack
	mov x30, x3
	b func
end:
`},
	armLeaf("frame", insn.SitePush, "", "str x30, [sp, #-48]!", armFrame),
	armLeaf("pair", insn.SiteEntry, "", "stp x29, x30, [sp, #-48]!", "mov x30, x3\n ldp x29, x30, [sp], #48\n ret"),
	armLeaf("call", insn.SiteCall, "str x30, [sp, #-16]!", "bl callee", "ldr x30, [sp], #16\n ret"),
	armLeaf("call of a register", insn.SiteCall, "str x30, [sp, #-16]!\n adr x5, callee", "blr x5", "ldr x30, [sp], #16\n mov x5, #0\n ret"),
	armLeaf("tail call", insn.SiteBranch, "add x3, x3, #1", "b callee", ""),
	armLeaf("tail call of a register", insn.SiteBranch, "adr x5, callee\n mov x6, x5\n eor x5, x5, x1\n eor x5, x5, x1", "br x5", "").withFlags(),
	armLeaf("return", insn.SiteReturn, "add x3, x3, #1", "ret", ""),
	armLeaf("return of a function that restores flags", insn.SiteReturn, "mrs x4, nzcv\n cmp x1, #1\n msr nzcv, x4", "ret", "").withFlags(),
	armLeaf("adr", insn.SiteAddress, "", "adr x5, data", "ldr x5, [x5]\n ret"),
	armLeaf("adrp", insn.SiteAddress, "", ".word 0xb0000005 // adrp x5, one page on", "ret"),
	armLeaf("adrp back", insn.SiteAddress, "", ".word 0xf0ffffe5 // adrp x5, one page back", "ret"),
	armLeaf("literal of 8 bytes", insn.SiteEntry, "", "ldr x5, data", "ret"),
	armLeaf("literal of 4 bytes", insn.SiteEntry, "", "ldr w5, data+8", "ret"),
	armLeaf("signed literal", insn.SiteEntry, "", "ldrsw x5, data+8", "ret"),
	armLeaf("cbz", insn.SiteBranch, "", "cbz x1, away", armTwoWays),
	armLeaf("cbnz of 4 bytes", insn.SiteBranch, "", "cbnz w1, away", armTwoWays),
	armLeaf("tbz", insn.SiteBranch, "", "tbz x1, #1, away", armTwoWays),
	armLeaf("tbnz of a high bit", insn.SiteBranch, "lsl x2, x1, #39", "tbnz x2, #40, away", armTwoWays),
	armLeaf("conditional branch", insn.SiteBranch, "cmp x1, #1", "b.hi away", armTwoWays).withFlags(),
	armLeaf("signed condition", insn.SiteBranch, "cmp x1, #2", "b.lt away", "cset x4, eq\n"+armTwoWays).withFlags(),
	armLeaf("nop", insn.SiteNop, "", "nop", "add x3, x3, #1\n ret"),
	armLeaf("flags set", insn.SiteEntry, "", "cmp x1, #2", "cset x4, hi\n ret"),
	armLeaf("flags used", insn.SiteEntry, "cmp x1, #2", "csel x4, x3, x2, hi", "ret").withFlags(),
	armLeaf("flags used behind a sum", insn.SiteEntry, "cmp x1, #2", "add x4, x3, #1", "cset x5, lo\n ret").withFlags(),
	armLeaf("flags used behind a loop", insn.SiteEntry, "cmp x1, #2", "mov x4, #3", "0: sub x4, x4, #1\n cbnz x4, 0b\n cset x5, lo\n ret").withFlags(),
	armLeaf("load", insn.SiteEntry, "", "ldr x4, [x0, #24]", "ret").withFault(),
	armLeaf("thread register", insn.SiteEntry, "", "mrs x4, tpidr_el0", "mov x4, #0\n ret"),
	armLeaf("flags read", insn.SiteEntry, "", "mrs x4, nzcv", "ret").withFlags(),
}
