#include "textflag.h"

// func hit(goroutine *probe.TrialGoroutine, n int)
//
// The place of the probe is a jump to the next instruction, which the kernel emulates.
TEXT ·hit(SB), NOSPLIT, $0-16
	MOVQ	goroutine+0(FP), AX
	MOVQ	n+8(FP), CX
again:
	BYTE	$0xeb; BYTE	$0x00
	DECQ	CX
	JNZ	again
	RET

// func hitEntry() unsafe.Pointer
TEXT ·hitEntry(SB), NOSPLIT, $0-8
	LEAQ	·hit(SB), AX
	MOVQ	AX, ret+0(FP)
	RET
