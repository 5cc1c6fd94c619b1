package insn

// x86Form says what follows an opcode.
type x86Form uint16

const (
	x86Invalid x86Form = 0
	x86Plain   x86Form = 1 << iota // nothing follows
	x86ModRM                       // a ModRM byte
	x86Imm8                        // one byte
	x86Imm16                       // two bytes
	x86ImmZ                        // four bytes, two with the operand-size prefix
	x86ImmV                        // four bytes, two with the operand-size prefix, eight with REX.W
	x86Imm32                       // four bytes whatever the prefixes
	x86Moffs                       // an address of eight bytes, four with the address-size prefix
)

// The opcode maps, one character for each opcode, translated by x86Key.
// Rows are the high digit of the opcode, columns the low one.
const (
	x86OneByteRows = "" +
		"mmmmbz..mmmmbz.." + // 00: ADD, OR; 0F is the escape
		"mmmmbz..mmmmbz.." + // 10: ADC, SBB
		"mmmmbz..mmmmbz.." + // 20: AND, SUB
		"mmmmbz..mmmmbz.." + // 30: XOR, CMP
		"................" + // 40: REX prefixes
		"pppppppppppppppp" + // 50: PUSH, POP
		"...m....zMbBpppp" + // 60: MOVSXD, PUSH imm, IMUL imm, INS, OUTS
		"bbbbbbbbbbbbbbbb" + // 70: Jcc rel8
		"BM.Bmmmmmmmmmmmm" + // 80: group 1, TEST, XCHG, MOV, LEA, POP
		"pppppppppp.ppppp" + // 90: XCHG, CWD, FWAIT, PUSHF, SAHF
		"ooooppppbzpppppp" + // A0: MOV moffs, string operations, TEST
		"bbbbbbbbvvvvvvvv" + // B0: MOV imm
		"BBwp..BMepwppb.p" + // C0: shifts, RET, MOV imm, ENTER, LEAVE, INT
		"mmmm...pmmmmmmmm" + // D0: shifts, XLAT, x87
		"bbbbbbbbll.bpppp" + // E0: LOOP, IN, OUT, CALL, JMP
		".p..ppmmppppppmm" //   F0: group 3 (see adjust), flags, groups 4 and 5

	x86TwoByteRows = "" +
		"mmmm.ppppp.p.mpB" + // 00: system, SYSCALL, UD2, prefetch, 3DNow
		"mmmmmmmmmmmmmmmm" + // 10: moves, NOP, ENDBR64
		"mmmm....mmmmmmmm" + // 20: control registers, moves, conversions
		"pppppp.p........" + // 30: MSRs, SYSENTER; 38 and 3A are escapes
		"mmmmmmmmmmmmmmmm" + // 40: CMOVcc
		"mmmmmmmmmmmmmmmm" + // 50: vector
		"mmmmmmmmmmmmmmmm" + // 60: vector
		"BBBBmmmpmm..mmmm" + // 70: PSHUF, shifts, EMMS, EXTRQ (see adjust)
		"llllllllllllllll" + // 80: Jcc rel32
		"mmmmmmmmmmmmmmmm" + // 90: SETcc
		"pppmBmmmpppmBmmm" + // A0: CPUID, BT, SHLD, RSM, BTS, SHRD, IMUL
		"mmmmmmmmmmBmmmmm" + // B0: CMPXCHG, MOVZX, POPCNT, group 8, BSF, MOVSX
		"mmBmBBBmpppppppp" + // C0: XADD, CMPPS, PINSRW, SHUFPS, BSWAP
		"mmmmmmmmmmmmmmmm" + // D0: vector
		"mmmmmmmmmmmmmmmm" + // E0: vector
		"mmmmmmmmmmmmmmmm" //   F0: vector, UD0
)

func x86Key(r byte) x86Form {
	switch r {
	case 'p':
		return x86Plain
	case 'm':
		return x86ModRM
	case 'B':
		return x86ModRM | x86Imm8
	case 'M':
		return x86ModRM | x86ImmZ
	case 'b':
		return x86Imm8
	case 'w':
		return x86Imm16
	case 'e':
		return x86Imm16 | x86Imm8
	case 'z':
		return x86ImmZ
	case 'l':
		return x86Imm32
	case 'v':
		return x86ImmV
	case 'o':
		return x86Moffs
	}
	return x86Invalid
}

var (
	x86OneByte = x86Forms(x86OneByteRows)
	x86TwoByte = x86Forms(x86TwoByteRows)
)

func x86Forms(rows string) (t [256]x86Form) {
	for i := range t {
		t[i] = x86Key(rows[i])
	}
	return t
}
