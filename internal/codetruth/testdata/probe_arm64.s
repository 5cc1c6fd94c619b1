// The probe: notes the registers and the flags as it finds them. TRASH, when set, is what it leaves in the flags.
	sub sp, sp, #1024
	stp x0, x1, [sp]
	movz x0, #0x3000, lsl #16
	stp x2, x3, [x0, #0x110]
	stp x4, x5, [x0, #0x120]
	stp x6, x7, [x0, #0x130]
	stp x8, x9, [x0, #0x140]
	stp x10, x11, [x0, #0x150]
	stp x12, x13, [x0, #0x160]
	stp x14, x15, [x0, #0x170]
	stp x16, x17, [x0, #0x180]
	stp x18, x19, [x0, #0x190]
	stp x20, x21, [x0, #0x1a0]
	stp x22, x23, [x0, #0x1b0]
	stp x24, x25, [x0, #0x1c0]
	stp x26, x27, [x0, #0x1d0]
	stp x28, x29, [x0, #0x1e0]
	add x1, sp, #1024
	stp x30, x1, [x0, #0x1f0]
	ldp x0, x1, [sp]
	stp x2, x3, [sp]
	movz x2, #0x3000, lsl #16
	stp x0, x1, [x2, #0x100]
	mrs x3, nzcv
	str x3, [x2, #0x200]
	ldr x3, [x2, #0x18]
	add x3, x3, #1
	str x3, [x2, #0x18]
.ifdef TRASH
	movz x3, #TRASH, lsl #16
	msr nzcv, x3
.endif
	ldp x2, x3, [sp]
	add sp, sp, #1024
