package perf

// The registers of a sample, in the order of their numbers in arch/x86/include/uapi/asm/perf_regs.h: BP, SP, IP and R12, which is
// the link register of one function (see threadRegs in package goproc).
const sampledRegsMask = 1<<6 | 1<<7 | 1<<8 | 1<<20

var sampledRegs = [...]regUse{useFP, useSP, usePC, useLR}
