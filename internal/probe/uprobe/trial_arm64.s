#include "textflag.h"

// func hit(goroutine *probe.TrialGoroutine, n int)
//
// The place of the probe is a jump to the next instruction, which the kernel emulates.
TEXT ·hit(SB), NOSPLIT, $0-16
	MOVD	goroutine+0(FP), R0
	MOVD	n+8(FP), R1
again:
	WORD	$0x14000001
	SUB	$1, R1
	CBNZ	R1, again
	RET

// func hitEntry() unsafe.Pointer
TEXT ·hitEntry(SB), NOSPLIT, $0-8
	MOVD	$·hit(SB), R0
	MOVD	R0, ret+0(FP)
	RET
