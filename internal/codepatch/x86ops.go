package codepatch

import "golang.org/x/arch/x86/x86asm"

// flagUse is what an instruction does with the arithmetic flags.
type flagUse uint8

const (
	flagsKept flagUse = iota // neither reads nor writes any
	flagsSome                // writes some or, as shifts do, sometimes, and reads none
	flagsSet                 // writes all of them
	flagsRead                // reads some
)

// x86Ops are the instructions that may be moved: those that compilers use and
// that do the same wherever they stand, but for operands and branches relative
// to the program counter.
var x86Ops = map[x86asm.Op]flagUse{
	x86asm.MOV: flagsKept, x86asm.MOVZX: flagsKept, x86asm.MOVSX: flagsKept, x86asm.MOVSXD: flagsKept,
	x86asm.LEA: flagsKept, x86asm.XCHG: flagsKept, x86asm.NOT: flagsKept, x86asm.BSWAP: flagsKept,
	x86asm.PUSH: flagsKept, x86asm.POP: flagsKept, x86asm.LEAVE: flagsKept, x86asm.NOP: flagsKept,
	x86asm.CDQ: flagsKept, x86asm.CQO: flagsKept, x86asm.CDQE: flagsKept, x86asm.CWDE: flagsKept,
	x86asm.MFENCE: flagsKept, x86asm.LFENCE: flagsKept, x86asm.SFENCE: flagsKept, x86asm.PAUSE: flagsKept,
	x86asm.PREFETCHT0: flagsKept, x86asm.PREFETCHNTA: flagsKept,
	x86asm.CLD: flagsKept,

	x86asm.MOVUPS: flagsKept, x86asm.MOVAPS: flagsKept, x86asm.MOVUPD: flagsKept, x86asm.MOVAPD: flagsKept,
	x86asm.MOVDQU: flagsKept, x86asm.MOVDQA: flagsKept, x86asm.MOVSS: flagsKept, x86asm.MOVSD_XMM: flagsKept,
	x86asm.MOVD: flagsKept, x86asm.MOVQ: flagsKept, x86asm.XORPS: flagsKept, x86asm.XORPD: flagsKept,
	x86asm.PXOR: flagsKept, x86asm.ADDSD: flagsKept, x86asm.SUBSD: flagsKept, x86asm.MULSD: flagsKept,
	x86asm.CVTSI2SD: flagsKept, x86asm.CVTTSD2SI: flagsKept,

	x86asm.ADD: flagsSet, x86asm.SUB: flagsSet, x86asm.CMP: flagsSet, x86asm.TEST: flagsSet,
	x86asm.AND: flagsSet, x86asm.OR: flagsSet, x86asm.XOR: flagsSet, x86asm.NEG: flagsSet,
	x86asm.XADD: flagsSet, x86asm.CMPXCHG: flagsSet, x86asm.UCOMISD: flagsSet, x86asm.UCOMISS: flagsSet,
	x86asm.COMISD: flagsSet, x86asm.COMISS: flagsSet,

	x86asm.INC: flagsSome, x86asm.DEC: flagsSome, x86asm.SHL: flagsSome, x86asm.SHR: flagsSome,
	x86asm.SAR: flagsSome, x86asm.ROL: flagsSome, x86asm.ROR: flagsSome, x86asm.IMUL: flagsSome,
	x86asm.MUL: flagsSome, x86asm.BT: flagsSome, x86asm.BTS: flagsSome, x86asm.BTR: flagsSome,
	x86asm.BTC: flagsSome, x86asm.BSF: flagsSome, x86asm.BSR: flagsSome, x86asm.POPCNT: flagsSome,

	x86asm.ADC: flagsRead, x86asm.SBB: flagsRead,
	x86asm.CMOVA: flagsRead, x86asm.CMOVAE: flagsRead, x86asm.CMOVB: flagsRead, x86asm.CMOVBE: flagsRead,
	x86asm.CMOVE: flagsRead, x86asm.CMOVNE: flagsRead, x86asm.CMOVG: flagsRead, x86asm.CMOVGE: flagsRead,
	x86asm.CMOVL: flagsRead, x86asm.CMOVLE: flagsRead, x86asm.CMOVS: flagsRead, x86asm.CMOVNS: flagsRead,
	x86asm.CMOVO: flagsRead, x86asm.CMOVNO: flagsRead, x86asm.CMOVP: flagsRead, x86asm.CMOVNP: flagsRead,
	x86asm.SETA: flagsRead, x86asm.SETAE: flagsRead, x86asm.SETB: flagsRead, x86asm.SETBE: flagsRead,
	x86asm.SETE: flagsRead, x86asm.SETNE: flagsRead, x86asm.SETG: flagsRead, x86asm.SETGE: flagsRead,
	x86asm.SETL: flagsRead, x86asm.SETLE: flagsRead, x86asm.SETS: flagsRead, x86asm.SETNS: flagsRead,
	x86asm.SETO: flagsRead, x86asm.SETNO: flagsRead, x86asm.SETP: flagsRead, x86asm.SETNP: flagsRead,

	// Branches; see flagsLive for how they are followed.
	x86asm.JA: flagsRead, x86asm.JAE: flagsRead, x86asm.JB: flagsRead, x86asm.JBE: flagsRead,
	x86asm.JE: flagsRead, x86asm.JNE: flagsRead, x86asm.JG: flagsRead, x86asm.JGE: flagsRead,
	x86asm.JL: flagsRead, x86asm.JLE: flagsRead, x86asm.JS: flagsRead, x86asm.JNS: flagsRead,
	x86asm.JO: flagsRead, x86asm.JNO: flagsRead, x86asm.JP: flagsRead, x86asm.JNP: flagsRead,
	x86asm.JMP: flagsKept, x86asm.RET: flagsKept,
}
