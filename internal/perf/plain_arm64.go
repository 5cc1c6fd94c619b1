package perf

// The registers of a sample, in the order of their numbers in arch/arm64/include/uapi/asm/perf_regs.h: FP, LR, SP and PC.
const sampledRegsMask = 1<<29 | 1<<30 | 1<<31 | 1<<32

var sampledRegs = [...]regUse{useFP, useLR, useSP, usePC}
