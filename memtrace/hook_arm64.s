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

// FIRE puts the gauge at R21 into the list, unless it was, and wakes the goroutine that cancels. It changes R19, R22 and R23. It
// is no function: a call would change LR, and a profiler's signal could find the hook called by itself. For the same reason LR is
// where the unwinder looks for it. The word below the stack pointer may be in use.
#define FIRE(again, push, fired, out) \
	ADD	$gauge_fired, R21, R22; \
	MOVD	$1, R19; \
again: \
	LDAXRW	(R22), R23; \
	CBNZW	R23, fired; \
	STLXRW	R19, (R22), R23; \
	CBNZW	R23, again; \
	MOVD	$·firedGauges(SB), R22; \
push: \
	LDAXR	(R22), R23; \
	MOVD	R23, gauge_next(R21); \
	STLXR	R21, (R22), R23; \
	CBNZ	R23, push; \
	SUB	$64, RSP; \
	MOVD	LR, 0(RSP); \
	MOVD	R0, 8(RSP); \
	MOVD	R1, 16(RSP); \
	MOVD	R2, 24(RSP); \
	MOVD	R8, 32(RSP); \
	MOVD	$·wake(SB), R0; \
	MOVW	(R0), R0; \
	MOVD	$·one(SB), R1; \
	MOVD	$8, R2; \
	MOVD	$64, R8; \
	SVC; \
	MOVD	8(RSP), R0; \
	MOVD	16(RSP), R1; \
	MOVD	24(RSP), R2; \
	MOVD	32(RSP), R8; \
	ADD	$64, RSP; \
	B	out; \
fired: \
	CLREX; \
out:

// FIND finds the slot of the current goroutine, R16. It changes R17 and R19.
#define FIND(missing) \
	MOVD	$·current(SB), R16; \
	MOVD	(R16), R16; \
	MOVD	$0x9E3779B97F4A7C15, R17; \
	MUL	g, R17, R17; \
	LSR	$32, R17; \
	MOVD	version_mask(R16), R19; \
	AND	R19, R17; \
	ADD	R17<<6, R16; \
	ADD	$version_buckets, R16; \
	MOVD	0(R16), R17; \
	CMP	g, R17; \
	BEQ	slot0; \
	MOVD	16(R16), R17; \
	CMP	g, R17; \
	BEQ	slot1; \
	MOVD	32(R16), R17; \
	CMP	g, R17; \
	BEQ	slot2; \
	MOVD	48(R16), R17; \
	CMP	g, R17; \
	BEQ	slot3; \
	EOR	$64, R16; \
	MOVD	0(R16), R17; \
	CMP	g, R17; \
	BEQ	slot0; \
	MOVD	16(R16), R17; \
	CMP	g, R17; \
	BEQ	slot1; \
	MOVD	32(R16), R17; \
	CMP	g, R17; \
	BEQ	slot2; \
	MOVD	48(R16), R17; \
	CMP	g, R17; \
	BEQ	slot3; \
	missing; \
slot3: \
	ADD	$16, R16; \
slot2: \
	ADD	$16, R16; \
slot1: \
	ADD	$16, R16; \
slot0:

// The assembler's temporary register, R27, must not be used: the code around the hook may be using it.

// func hookInner()
// The hook of a function that hook's functions call, too. R24 is the return address.
TEXT ·hookInner(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	$·outer(SB), R16
	MOVD	0(R16), R17
	SUB	R17, R24, R17
	MOVD	8(R16), R19
	CMP	R19, R17
	BLO	counted
	MOVD	16(R16), R17
	SUB	R17, R24, R17
	MOVD	24(R16), R19
	CMP	R19, R17
	BLO	counted
	B	·hook(SB)
counted:
	RET

// func hook()
// Counts an allocation. R0 is its size, R1 its type. Changes R16, R17, R19 to R23 and the flags.
TEXT ·hook(SB), NOSPLIT|NOFRAME, $0-0
	FIND(RET)
	MOVD	8(R16), R16
	CBZ	R16, done
	CBZ	R0, done

	MOVD	R0, R17 // what the object takes
	MOVD	$1, R19 // elements
	MOVD	$smallMax, R22
	CBZ	R1, round
	MOVD	type_size(R1), R20
	CMP	R20, R0
	BEQ	typed
	CBZ	R20, typed
	UDIV	R20, R0, R19
typed:
	MOVD	type_ptrBytes(R1), R20
	CBZ	R20, round
	CMP	$headerAbove, R0
	BLS	round
	ADD	$header, R17
round:
	CMP	R22, R0
	BHI	large
	CMP	$fineMax, R17
	BHI	coarse
	ADD	$7, R17
	LSR	$3, R17
	MOVD	$·fine(SB), R20
	ADD	R17<<1, R20
	MOVHU	(R20), R17
	B	sum
coarse:
	SUB	$(fineMax-127), R17
	LSR	$7, R17
	MOVD	$·coarse(SB), R20
	ADD	R17<<1, R20
	MOVHU	(R20), R17
	B	sum
large:
	MOVD	$8191, R20
	ADD	R20, R0, R17
	LSR	$13, R17
	LSL	$13, R17
sum:
	MOVD	cell_bytes(R16), R20
	ADD	R17, R20
	MOVD	R20, cell_bytes(R16)
	MOVD	cell_objects(R16), R20
	ADD	$1, R20
	MOVD	R20, cell_objects(R16)
	MOVD	cell_elements(R16), R20
	ADD	R19, R20
	MOVD	R20, cell_elements(R16)

	MOVD	cell_byBytes(R16), R20
	CBZ	R20, calls
nextBytes:
	MOVD	(R20), R21
	CBZ	R21, calls
addBytes:
	LDAXR	(R21), R22
	ADD	R17, R22
	STLXR	R22, (R21), R23
	CBNZ	R23, addBytes
	MOVD	gauge_limit(R21), R23
	CMP	R23, R22
	BLE	underBytes
	FIRE(bytesAgain, bytesPush, bytesFired, underBytes)

	ADD	$8, R20
	B	nextBytes
calls:
	MOVD	cell_byCalls(R16), R20
	CBZ	R20, done
nextCalls:
	MOVD	(R20), R21
	CBZ	R21, done
addCalls:
	LDAXR	(R21), R22
	ADD	$1, R22
	STLXR	R22, (R21), R23
	CBNZ	R23, addCalls
	MOVD	gauge_limit(R21), R23
	CMP	R23, R22
	BLE	underCalls
	FIRE(callsAgain, callsPush, callsFired, underCalls)

	ADD	$8, R20
	B	nextCalls
done:
	RET

// func hookStart()
// The hook of newproc. R0 is a function value, R25 the return address. If the goroutine that starts is to inherit, newproc begins
// again, with another function. Changes R16, R17, R19 and R20.
TEXT ·hookStart(SB), NOSPLIT|NOFRAME, $0-0
	FIND(RET)
	MOVD	8(R16), R16
	CBZ	R16, as
	MOVD	cell_starts(R16), R17
	CBZ	R17, as
	CBZ	R0, as
	MOVD	(R0), R17
	MOVD	$·childCode(SB), R19
	MOVD	(R19), R19
	CMP	R19, R17
	BEQ	as
	MOVD	$·runtimeCode(SB), R19
	MOVD	0(R19), R20
	SUB	R20, R17
	MOVD	8(R19), R20
	CMP	R20, R17
	BLO	as
	MOVD	R25, LR
	B	·inherit(SB)
as:
	RET

// func inherit()
// Calls newproc with the function that inherited returns for R0. To its caller it is newproc.
TEXT ·inherit(SB), NOSPLIT, $24-0
	NO_LOCAL_POINTERS
	MOVD	R0, 8(RSP)
	CALL	·inherited(SB)
	MOVD	16(RSP), R0
	RET	·callNewproc(SB)

// func callNewproc()
TEXT ·callNewproc(SB), NOSPLIT|NOFRAME, $0-0
	MOVD	$·newproc(SB), R16
	MOVD	(R16), R16
	JMP	(R16)

// func getg() uintptr
TEXT ·getg(SB), NOSPLIT, $0-8
	MOVD	g, ret+0(FP)
	RET

// func pokeAll(list *patch, n int)
// Copies the bytes of n patches to where they belong, and makes the processors read them. No other goroutine can run on this
// processor meanwhile.
TEXT ·pokeAll(SB), NOSPLIT, $0-16
	MOVD	list+0(FP), R0
	MOVD	n+8(FP), R1
nextPatch:
	CBZ	R1, poked
	MOVD	0(R0), R2
	MOVW	16(R0), R3
	MOVW	R3, (R2)
	WORD	$0xd50b7b22 // DC CVAU, X2
	WORD	$0xd5033b9f // DSB ISH
	WORD	$0xd50b7522 // IC IVAU, X2
	WORD	$0xd5033b9f // DSB ISH
	ADD	$32, R0
	SUB	$1, R1
	B	nextPatch
poked:
	WORD	$0xd5033fdf // ISB
	RET

DATA ·hooks+0(SB)/8, $·hook(SB)
DATA ·hooks+8(SB)/8, $·hookInner(SB)
DATA ·hooks+16(SB)/8, $·hookStart(SB)
GLOBL ·hooks(SB), RODATA, $24

// What is written to the eventfd.
DATA ·one+0(SB)/8, $1
GLOBL ·one(SB), RODATA, $8
