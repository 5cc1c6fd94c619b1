// Calls the function at FUNC once for each record, with the record's registers, and writes all records to standard output.
.set COUNT,  0x00
.set FUNC,   0x08
.set CURSOR, 0x10
.set PROBES, 0x18
.set REC,    0x20
.set LOG,    0x100

_start:
next:
	movz x9, #0x3000, lsl #16      // DATA
	ldr x10, [x9, #CURSOR]
	ldr x11, [x9, #COUNT]
	cmp x10, x11
	b.hs done
	str xzr, [x9, #PROBES]
	movz x12, #0x1, lsl #16        // RECORDS
	add x12, x12, x9
	add x12, x12, x10, lsl #12
	str x12, [x9, #REC]
	add x1, x9, #LOG
	mov x2, #0x22
0:	str xzr, [x1], #8
	subs x2, x2, #1
	b.ne 0b
	movz x13, #0x3101, lsl #16     // STACK
	mov sp, x13
	ldr x13, [x12, #0x100]
	msr nzcv, x13
	ldr x30, [x9, #FUNC]
	ldp x0, x1, [x12, #0]
	ldp x2, x3, [x12, #16]
	ldp x4, x5, [x12, #32]
	ldp x6, x7, [x12, #48]
	ldp x8, x9, [x12, #64]
	ldp x10, x11, [x12, #80]
	ldp x14, x15, [x12, #112]
	ldp x16, x17, [x12, #128]
	ldp x18, x19, [x12, #144]
	ldp x20, x21, [x12, #160]
	ldp x22, x23, [x12, #176]
	ldp x24, x25, [x12, #192]
	ldp x26, x27, [x12, #208]
	ldp x28, x29, [x12, #224]
	ldp x12, x13, [x12, #96]
	blr x30
	stur x12, [sp, #-256]
	movz x12, #0x3000, lsl #16
	ldr x12, [x12, #REC]
	add x12, x12, #0x300
	stp x0, x1, [x12, #0]
	stp x2, x3, [x12, #16]
	stp x4, x5, [x12, #32]
	stp x6, x7, [x12, #48]
	stp x8, x9, [x12, #64]
	stp x10, x11, [x12, #80]
	str x13, [x12, #104]
	stp x14, x15, [x12, #112]
	stp x16, x17, [x12, #128]
	stp x18, x19, [x12, #144]
	stp x20, x21, [x12, #160]
	stp x22, x23, [x12, #176]
	stp x24, x25, [x12, #192]
	stp x26, x27, [x12, #208]
	stp x28, x29, [x12, #224]
	mov x13, sp
	stp x30, x13, [x12, #240]
	ldur x13, [sp, #-256]
	str x13, [x12, #96]
	mrs x13, nzcv
	str x13, [x12, #0x100]
	sub x12, x12, #0x300
	movz x9, #0x3000, lsl #16
	ldr x13, [x9, #PROBES]
	str x13, [x12, #0x408]
	add x1, x9, #LOG
	add x3, x12, #0x500
	mov x2, #0x22
1:	ldr x4, [x1], #8
	str x4, [x3], #8
	subs x2, x2, #1
	b.ne 1b
	sub x1, sp, #0x200
	add x3, x12, #0x800
	mov x2, #0x40
2:	ldr x4, [x1], #8
	str x4, [x3], #8
	subs x2, x2, #1
	b.ne 2b
	ldr x10, [x9, #CURSOR]
	add x10, x10, #1
	str x10, [x9, #CURSOR]
	b next
done:
	mov x0, #1
	movz x1, #0x3001, lsl #16
	lsl x2, x11, #12
	mov x8, #64                    // write
	svc #0
	mov x0, #0
	mov x8, #93                    // exit
	svc #0
