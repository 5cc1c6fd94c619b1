//go:build linux

#include "funcdata.h"
#include "textflag.h"

// The fields of cell, gauge, version and abi.Type.
#define cell_bytes 0
#define cell_objects 8
#define cell_elements 16
#define cell_byBytes 24
#define cell_byCalls 32
#define cell_starts 40
#define gauge_used 0
#define gauge_limit 8
#define gauge_next 16
#define gauge_fired 24
#define version_mask 0
#define version_buckets 128
#define type_size 0
#define type_ptrBytes 8

#define smallMax (32768-8) // larger objects have pages of their own
#define headerAbove 512    // larger small objects with pointers have a header
#define header 8
#define fineMax 1024

// FIND finds the slot of the current goroutine, R13. It changes R12.
#define FIND(missing) \
	MOVQ	·current(SB), R12; \
	MOVQ	$0x9E3779B97F4A7C15, R13; \
	IMULQ	R14, R13; \
	SHRQ	$32, R13; \
	ANDQ	version_mask(R12), R13; \
	SHLQ	$6, R13; \
	LEAQ	version_buckets(R12)(R13*1), R13; \
	CMPQ	0(R13), R14; \
	JEQ	slot0; \
	CMPQ	16(R13), R14; \
	JEQ	slot1; \
	CMPQ	32(R13), R14; \
	JEQ	slot2; \
	CMPQ	48(R13), R14; \
	JEQ	slot3; \
	XORQ	$64, R13; \
	CMPQ	0(R13), R14; \
	JEQ	slot0; \
	CMPQ	16(R13), R14; \
	JEQ	slot1; \
	CMPQ	32(R13), R14; \
	JEQ	slot2; \
	CMPQ	48(R13), R14; \
	JEQ	slot3; \
	missing; \
slot3: \
	ADDQ	$16, R13; \
slot2: \
	ADDQ	$16, R13; \
slot1: \
	ADDQ	$16, R13; \
slot0:

// func hookInner()
// The hook of a function that hook's functions call, too. R13 points to the return address.
TEXT ·hookInner(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ	(R13), R13
	MOVQ	R13, R12
	SUBQ	·outer(SB), R12
	CMPQ	R12, ·outer+8(SB)
	JCS	counted
	SUBQ	·outer+16(SB), R13
	CMPQ	R13, ·outer+24(SB)
	JCS	counted
	JMP	·hook(SB)
counted:
	RET

// func hook()
// Counts an allocation. AX is its size, BX its type, R14 is g. Changes R12, R13 and the flags.
TEXT ·hook(SB), NOSPLIT|NOFRAME, $0-0
	FIND(RET)
	MOVQ	8(R13), R12
	TESTQ	R12, R12
	JEQ	none
	TESTQ	AX, AX
	JEQ	none

	PUSHQ	CX
	PUSHQ	DX
	MOVQ	AX, CX // what the object takes
	MOVL	$1, DX // elements
	TESTQ	BX, BX
	JEQ	round
	MOVQ	type_size(BX), R13
	CMPQ	R13, AX
	JEQ	typed
	TESTQ	R13, R13
	JEQ	typed
	PUSHQ	AX
	XORL	DX, DX
	DIVQ	R13
	MOVQ	AX, DX
	POPQ	AX
typed:
	CMPQ	type_ptrBytes(BX), $0
	JEQ	round
	CMPQ	AX, $headerAbove
	JLS	round
	ADDQ	$header, CX
round:
	CMPQ	AX, $smallMax
	JHI	large
	CMPQ	CX, $fineMax
	JHI	coarse
	ADDQ	$7, CX
	SHRQ	$3, CX
	LEAQ	·fine(SB), R13
	MOVWLZX	(R13)(CX*2), CX
	JMP	sum
coarse:
	ADDQ	$(127-fineMax), CX
	SHRQ	$7, CX
	LEAQ	·coarse(SB), R13
	MOVWLZX	(R13)(CX*2), CX
	JMP	sum
large:
	MOVQ	AX, CX
	ADDQ	$8191, CX
	ANDQ	$~8191, CX
sum:
	ADDQ	CX, cell_bytes(R12)
	INCQ	cell_objects(R12)
	ADDQ	DX, cell_elements(R12)

	MOVQ	cell_byBytes(R12), DX
	TESTQ	DX, DX
	JEQ	calls
nextBytes:
	MOVQ	(DX), R13
	TESTQ	R13, R13
	JEQ	calls
	PUSHQ	AX
	MOVQ	CX, AX
	LOCK
	XADDQ	AX, gauge_used(R13)
	ADDQ	CX, AX
	CMPQ	AX, gauge_limit(R13)
	POPQ	AX
	JLE	underBytes
	CALL	·fire(SB)
underBytes:
	ADDQ	$8, DX
	JMP	nextBytes
calls:
	MOVQ	cell_byCalls(R12), DX
	TESTQ	DX, DX
	JEQ	done
nextCalls:
	MOVQ	(DX), R13
	TESTQ	R13, R13
	JEQ	done
	MOVL	$1, CX
	LOCK
	XADDQ	CX, gauge_used(R13)
	CMPQ	CX, gauge_limit(R13)
	JLT	underCalls
	CALL	·fire(SB)
underCalls:
	ADDQ	$8, DX
	JMP	nextCalls
done:
	POPQ	DX
	POPQ	CX
none:
	RET

// func fire()
// Puts the gauge at R13 into the list, unless it was, and wakes the goroutine that cancels. Changes the flags.
TEXT ·fire(SB), NOSPLIT|NOFRAME, $0-0
	PUSHQ	AX
	MOVL	$1, AX
	XCHGL	AX, gauge_fired(R13)
	TESTL	AX, AX
	JNE	out
	MOVQ	·firedGauges(SB), AX
again:
	MOVQ	AX, gauge_next(R13)
	LOCK
	CMPXCHGQ	R13, ·firedGauges(SB)
	JNE	again
	PUSHQ	CX
	PUSHQ	DX
	PUSHQ	SI
	PUSHQ	DI
	PUSHQ	R11
	MOVL	·wake(SB), DI
	LEAQ	·one(SB), SI
	MOVL	$8, DX
	MOVL	$1, AX // write
	SYSCALL
	POPQ	R11
	POPQ	DI
	POPQ	SI
	POPQ	DX
	POPQ	CX
out:
	POPQ	AX
	RET

// func hookStart()
// The hook of newproc, which has a frame. AX is a function value. If the goroutine that starts is to inherit, newproc begins again,
// with another function. Changes R12, R13 and the flags.
TEXT ·hookStart(SB), NOSPLIT|NOFRAME, $0-0
	FIND(RET)
	MOVQ	8(R13), R12
	TESTQ	R12, R12
	JEQ	as
	CMPQ	cell_starts(R12), $0
	JEQ	as
	TESTQ	AX, AX
	JEQ	as
	MOVQ	(AX), R12
	CMPQ	R12, ·childCode(SB)
	JEQ	as
	SUBQ	·runtimeCode(SB), R12
	CMPQ	R12, ·runtimeCode+8(SB)
	JCS	as
	LEAVEQ
	JMP	·inherit(SB)
as:
	RET

// func inherit()
// Calls newproc with the function that inherited returns for AX. To its caller it is newproc.
TEXT ·inherit(SB), NOSPLIT, $16-0
	NO_LOCAL_POINTERS
	MOVQ	AX, 0(SP)
	CALL	·inherited(SB)
	MOVQ	8(SP), AX
	MOVQ	(TLS), R14
	XORPS	X15, X15
	RET	·callNewproc(SB)

// func callNewproc()
TEXT ·callNewproc(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ	·newproc(SB), R12
	JMP	R12

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVQ	(TLS), AX
	MOVQ	AX, ret+0(FP)
	RET

// func pokeAll(list *patch, n int)
// Copies the bytes of n patches to where they belong. No other goroutine can run on this processor meanwhile.
TEXT ·pokeAll(SB), NOSPLIT, $0-16
	MOVQ	list+0(FP), AX
	MOVQ	n+8(FP), BX
	CLD
nextPatch:
	TESTQ	BX, BX
	JEQ	poked
	MOVQ	0(AX), DI
	LEAQ	16(AX), SI
	MOVQ	8(AX), CX
	REP
	MOVSB
	ADDQ	$32, AX
	DECQ	BX
	JMP	nextPatch
poked:
	RET

DATA ·hooks+0(SB)/8, $·hook(SB)
DATA ·hooks+8(SB)/8, $·hookInner(SB)
DATA ·hooks+16(SB)/8, $·hookStart(SB)
GLOBL ·hooks(SB), RODATA, $24

// What is written to the eventfd.
DATA ·one+0(SB)/8, $1
GLOBL ·one(SB), RODATA, $8
