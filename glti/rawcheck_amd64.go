package glti

import "encoding/binary"

const canCheckRaw = true

// findCall returns the offset of an instruction that could leave a function, or that is unknown.
func findCall(entry uintptr, code []byte) (at uintptr, found bool) {
	for n := 0; int(at) < len(code); at += uintptr(n) {
		var leaves bool
		if n, leaves = instruction(code[at:], int(at), len(code)); n == 0 || leaves {
			return at, true
		}
	}
	return 0, false
}

// What follows an opcode.
const (
	plain   = 1 << iota // nothing
	modRM               // a ModRM byte, and what that requires
	imm8                // one byte
	immZ                // four bytes, or two with the prefix 66
	imm16               // two bytes
	immV                // as immZ, or eight bytes with REX.W
	jump8               // a distance of one byte
	jump32              // a distance of four bytes
	unknown = 0
)

// instruction returns the size of the first instruction of a function's code that is at an offset, 0 if it is unknown. leaves reports whether
// it could call something or jump out of the function, whose code has a size.
func instruction(code []byte, offset, size int) (n int, leaves bool) {
	wide, short := false, false // REX.W, the prefix 66
	i := 0
	for ; i < len(code); i++ {
		switch code[i] {
		case 0x66:
			short = true
			continue
		case 0xf0, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
			continue
		}
		break
	}
	if i < len(code) && code[i]&0xf0 == 0x40 {
		wide = code[i]&8 != 0
		i++
	}
	form, op, i := opcode(code, i)
	if form == unknown || i > len(code) {
		return 0, false
	}
	reg := byte(0)
	if form&modRM != 0 {
		if i >= len(code) {
			return 0, false
		}
		reg = code[i] >> 3 & 7
		i += modRMSize(code[i:])
	}
	switch {
	case op == 0xff:
		leaves = reg >= 2 && reg <= 5 // indirect CALL and JMP
	case op == 0xf6 && reg < 2: // TEST
		form |= imm8
	case op == 0xf7 && reg < 2:
		form |= immZ
	}
	switch {
	case form&(immZ|immV) != 0 && short:
		i += 2
	case form&immV != 0 && wide:
		i += 8
	case form&(immZ|immV|jump32) != 0:
		i += 4
	case form&imm16 != 0:
		i += 2
	case form&jump8 != 0:
		i++
	}
	if form&imm8 != 0 {
		i++
	}
	if i > len(code) {
		return 0, false
	}
	if form&(jump8|jump32) != 0 {
		distance := int(int8(code[i-1]))
		if form&jump32 != 0 {
			distance = int(int32(binary.LittleEndian.Uint32(code[i-4:])))
		}
		to := offset + i + distance
		leaves = op == 0xe8 || to < 0 || to >= size
	}
	return i, leaves
}

// modRMSize returns the size of a ModRM byte with the SIB byte and the displacement.
func modRMSize(code []byte) int {
	mod, rm, n := code[0]>>6, code[0]&7, 1
	if mod == 3 {
		return n
	}
	if rm == 4 {
		n++
		if mod == 0 && len(code) > 1 && code[1]&7 == 5 {
			return n + 4
		}
	}
	switch {
	case mod == 1:
		return n + 1
	case mod == 2, mod == 0 && rm == 5:
		return n + 4
	}
	return n
}

// opcode returns what follows the opcode at an index, the opcode if it has one byte, and the index after it. SYSCALL is unknown.
func opcode(code []byte, i int) (form int, op byte, next int) {
	at := func(i int) byte {
		if i < len(code) {
			return code[i]
		}
		return 0
	}
	switch op = at(i); {
	case op == 0x0f && at(i+1) == 0x38:
		return modRM, 0, i + 3
	case op == 0x0f && at(i+1) == 0x3a:
		return modRM | imm8, 0, i + 3
	case op == 0x0f:
		return twoByte(at(i + 1)), 0, i + 2
	case op == 0xc5: // VEX
		return vex(1, at(i+2)), 0, i + 3
	case op == 0xc4:
		return vex(at(i+1)&0x1f, at(i+3)), 0, i + 4
	}
	return oneByte(op), op, i + 1
}

func vex(opcodes, op byte) int {
	switch opcodes {
	case 1:
		if form := twoByte(op); form&jump32 == 0 {
			return form
		}
		return unknown
	case 2:
		return modRM
	case 3:
		return modRM | imm8
	}
	return unknown
}

func oneByte(op byte) int {
	switch {
	case op < 0x40 && op&7 < 4, op == 0x63, op >= 0x84 && op <= 0x8b, op == 0x8d, op >= 0xd0 && op <= 0xd3, op == 0xf6, op == 0xf7, op >= 0xfe:
		return modRM
	case op < 0x40 && op&7 == 4, op == 0x6a, op == 0xa8, op >= 0xb0 && op <= 0xb7:
		return imm8
	case op < 0x40 && op&7 == 5, op == 0x68, op == 0xa9:
		return immZ
	case op >= 0x50 && op < 0x60, op >= 0x90 && op <= 0x99, op >= 0xa4 && op <= 0xa7, op >= 0xaa && op <= 0xaf, op == 0xc3, op == 0xc9, op == 0xcc:
		return plain
	case op == 0x69, op == 0x81, op == 0xc7:
		return modRM | immZ
	case op == 0x6b, op == 0x80, op == 0x83, op == 0xc0, op == 0xc1, op == 0xc6:
		return modRM | imm8
	case op >= 0x70 && op < 0x80, op == 0xeb:
		return jump8
	case op >= 0xb8 && op <= 0xbf:
		return immV
	case op == 0xc2:
		return imm16
	case op == 0xe8, op == 0xe9:
		return jump32
	}
	return unknown
}

func twoByte(op byte) int {
	switch {
	case op >= 0x10 && op <= 0x1f, op >= 0x28 && op <= 0x2f, op >= 0x40 && op <= 0x6f, op >= 0x74 && op <= 0x76, op >= 0x7c && op <= 0x7f,
		op >= 0x90 && op <= 0x9f, op == 0xa3, op == 0xa5, op == 0xab, op >= 0xad && op <= 0xb1, op == 0xb3, op >= 0xb6 && op <= 0xb8,
		op >= 0xbb && op <= 0xc1, op == 0xc3, op == 0xc7, op >= 0xd0 && op <= 0xfe:
		return modRM
	case op >= 0x70 && op <= 0x73, op == 0xa4, op == 0xac, op == 0xba, op == 0xc2, op >= 0xc4 && op <= 0xc6:
		return modRM | imm8
	case op == 0x77, op == 0xa2, op >= 0xc8 && op <= 0xcf:
		return plain
	case op >= 0x80 && op < 0x90:
		return jump32
	}
	return unknown
}
