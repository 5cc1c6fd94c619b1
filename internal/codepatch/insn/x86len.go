package insn

import "encoding/binary"

// x86Inst is the shape of one x86-64 instruction: its length, its opcode and
// where its memory operand points. It is filled in from the encoding rules
// alone, so it is right for instructions whose meaning is not known.
type x86Inst struct {
	len   int   // at least 1; 1 for bytes that encode no instruction
	valid bool  // the bytes are a complete instruction
	mode  uint8 // how the opcode is encoded, see x86Legacy
	space uint8 // opcode map: 0 one byte, 1 0F, 2 0F38, 3 0F3A; above, as VEX, EVEX or XOP number it
	op    byte
	rex   byte // REX prefix, or 0
	pfx   x86Prefix

	hasModRM bool
	modrm    byte
	mem      x86Mem

	immLen int   // bytes of immediate (or of branch displacement)
	imm    int64 // sign-extended; of ENTER only the first word
}

// The ways to encode an opcode.
const (
	x86Legacy uint8 = iota
	x86VEX
	x86EVEX
	x86XOP
)

type x86Prefix uint8

const (
	x86OpSize   x86Prefix = 1 << iota // 66
	x86AddrSize                       // 67
	x86Rep                            // F3
	x86Repne                          // F2
	x86Lock                           // F0
	x86Seg                            // 64 or 65: relative to FS or GS
	x86Ignored                        // 26, 2E, 36 or 3E: without meaning in 64-bit mode
)

// x86Mem is a memory operand.
type x86Mem struct {
	kind    x86MemKind
	base    int8 // register number, or -1
	index   int8 // register number, or -1
	scale   uint8
	disp    int64
	dispLen int
}

type x86MemKind uint8

const (
	x86NoMem    x86MemKind = iota
	x86RegMem              // base and/or index plus displacement
	x86AbsMem              // displacement alone: an absolute address
	x86RIPMem              // displacement from the end of the instruction
	x86VectorIx            // the index is a vector register (gather, scatter)
)

const x86MaxLen = 15 // the architecture's limit on the length of an instruction

// decode fills x from the first instruction in b.
func (x *x86Inst) decode(b []byte) {
	*x = x86Inst{mem: x86Mem{base: -1, index: -1}}
	d := x86Decoder{b: b}
	if len(b) > x86MaxLen {
		d.b = b[:x86MaxLen]
	}
	x.valid = d.inst(x)
	x.len = d.pos
	if !x.valid {
		x.len = 1
	}
}

// x86Decoder reads the bytes of one instruction. Once bytes run out, bad is
// set and everything reads as zero.
type x86Decoder struct {
	b   []byte
	pos int
	bad bool
}

func (d *x86Decoder) u8() byte {
	if d.pos >= len(d.b) {
		d.bad = true
		return 0
	}
	v := d.b[d.pos]
	d.pos++
	return v
}

// signed reads n bytes (0, 1, 2, 3, 4 or 8) as a sign-extended little-endian number.
// Three bytes are the word and byte of ENTER: the word is returned.
func (d *x86Decoder) signed(n int) int64 {
	if n < 0 || d.pos+n > len(d.b) {
		d.bad = true
		return 0
	}
	p := d.b[d.pos : d.pos+n]
	d.pos += n
	switch n {
	case 1:
		return int64(int8(p[0]))
	case 2, 3:
		return int64(int16(binary.LittleEndian.Uint16(p)))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(p)))
	case 8:
		return int64(binary.LittleEndian.Uint64(p))
	}
	return 0
}

func (d *x86Decoder) inst(x *x86Inst) bool {
	x.op = d.prefixes(x)
	form := x86Invalid
	switch {
	case x.op == 0xC4 || x.op == 0xC5:
		form = d.vex(x)
	case x.op == 0x62:
		form = d.evex(x)
	case x.op == 0x8F && d.pos < len(d.b) && d.b[d.pos]&0x1F >= 8:
		form = d.xop(x)
	case x.op == 0x0F:
		form = d.escape(x)
	default:
		form = x86OneByte[x.op]
	}
	if form == x86Invalid || d.bad {
		return false
	}
	if form&x86ModRM != 0 {
		d.modRM(x)
		form = x.adjust(form)
	}
	x.immLen = x.immBytes(form)
	x.imm = d.signed(x.immLen)
	return !d.bad
}

// prefixes reads the legacy and REX prefixes and returns the first byte after
// them. A REX prefix counts only directly before the opcode.
func (d *x86Decoder) prefixes(x *x86Inst) byte {
	for {
		b := d.u8()
		if b&0xF0 == 0x40 && !d.bad {
			x.rex = b
			continue
		}
		switch b {
		case 0x66:
			x.pfx |= x86OpSize
		case 0x67:
			x.pfx |= x86AddrSize
		case 0xF3:
			x.pfx |= x86Rep
		case 0xF2:
			x.pfx |= x86Repne
		case 0xF0:
			x.pfx |= x86Lock
		case 0x64, 0x65:
			x.pfx |= x86Seg
		case 0x26, 0x2E, 0x36, 0x3E:
			x.pfx |= x86Ignored
		default:
			return b
		}
		x.rex = 0
	}
}

func (d *x86Decoder) escape(x *x86Inst) x86Form {
	x.space, x.op = 1, d.u8()
	switch x.op {
	case 0x38:
		x.space, x.op = 2, d.u8()
		return x86ModRM
	case 0x3A:
		x.space, x.op = 3, d.u8()
		return x86ModRM | x86Imm8
	}
	return x86TwoByte[x.op]
}

// vex reads the rest of a VEX prefix and the opcode after it.
func (d *x86Decoder) vex(x *x86Inst) x86Form {
	if x.rex != 0 { // a REX prefix before VEX faults
		return x86Invalid
	}
	x.mode = x86VEX
	first := d.u8()
	x.rex = (^first >> 5) & 4 // R, stored inverted
	x.space = 1
	if x.op == 0xC4 {
		x.rex = (^first >> 5) & 7 // R, X, B
		x.space = first & 0x1F
		x.rex |= d.u8() >> 4 & 8 // W
	}
	x.op = d.u8()
	return vectorForm(x.space, x.op)
}

// evex reads the rest of an EVEX prefix and the opcode after it.
func (d *x86Decoder) evex(x *x86Inst) x86Form {
	if x.rex != 0 {
		return x86Invalid
	}
	x.mode = x86EVEX
	p0, p1 := d.u8(), d.u8()
	d.u8()
	x.rex = (^p0>>5)&7 | p1>>4&8
	x.space = p0 & 7
	x.op = d.u8()
	if p1&4 == 0 { // a fixed bit
		return x86Invalid
	}
	return vectorForm(x.space, x.op)
}

// vectorForm says what follows a VEX or EVEX opcode.
func vectorForm(space, op byte) x86Form {
	switch space {
	case 1:
		if op == 0x77 { // vzeroupper, vzeroall
			return x86Plain
		}
		return x86ModRM | x86TwoByte[op]&x86Imm8
	case 2, 4, 5, 6:
		return x86ModRM
	case 3:
		return x86ModRM | x86Imm8
	case 7:
		return x86ModRM | x86Imm32
	}
	return x86Invalid
}

// xop reads the rest of AMD's XOP prefix and the opcode after it.
func (d *x86Decoder) xop(x *x86Inst) x86Form {
	if x.rex != 0 {
		return x86Invalid
	}
	x.mode = x86XOP
	p0, p1 := d.u8(), d.u8()
	x.rex = (^p0>>5)&7 | p1>>4&8
	x.space = p0 & 0x1F
	x.op = d.u8()
	switch x.space {
	case 8:
		return x86ModRM | x86Imm8
	case 9:
		return x86ModRM
	case 10:
		return x86ModRM | x86Imm32
	}
	return x86Invalid
}

// modRM reads the ModRM byte and what it announces: SIB byte and displacement.
func (d *x86Decoder) modRM(x *x86Inst) {
	x.hasModRM = true
	x.modrm = d.u8()
	mod, rm := x.modrm>>6, x.modrm&7
	if mod == 3 || x.mode == x86Legacy && x.space == 1 && x.op&^7 == 0x20 {
		return // moves to and from control registers ignore mod
	}
	m := &x.mem
	m.kind = x86RegMem
	hasBase := true
	switch {
	case rm == 4:
		sib := d.u8()
		m.scale = 1 << (sib >> 6)
		if ix := int8(sib>>3&7 | x.rex&2<<2); ix != 4 {
			m.index = ix
		}
		rm = sib & 7
		if hasBase = rm != 5 || mod != 0; !hasBase && m.index < 0 {
			m.kind = x86AbsMem
		}
	case rm == 5 && mod == 0:
		m.kind, hasBase = x86RIPMem, false
	}
	if hasBase {
		m.base = int8(rm | x.rex&1<<3)
	}
	switch {
	case mod == 1:
		m.dispLen = 1
	case mod == 2 || !hasBase:
		m.dispLen = 4
	}
	m.disp = d.signed(m.dispLen)
	if x.mode == x86EVEX && m.dispLen == 1 || x.isGather() {
		m.kind = x86VectorIx // a scaled displacement or a vector of addresses: not one known place
	}
}

// isGather says whether the index register of x is a vector.
func (x *x86Inst) isGather() bool {
	return (x.mode == x86VEX || x.mode == x86EVEX) && x.space == 2 &&
		(x.op >= 0x90 && x.op <= 0x93 || x.op >= 0xA0 && x.op <= 0xA3 || x.op == 0xC6 || x.op == 0xC7)
}

// immBytes returns the number of bytes of immediate that form stands for in x.
func (x *x86Inst) immBytes(form x86Form) int {
	n := 0
	if form&x86Imm8 != 0 {
		n++
	}
	if form&x86Imm16 != 0 {
		n += 2
	}
	if form&x86Imm32 != 0 {
		n += 4
	}
	if form&x86ImmZ != 0 {
		if n += 4; x.pfx&x86OpSize != 0 && x.rex&8 == 0 {
			n -= 2
		}
	}
	if form&x86ImmV != 0 {
		switch {
		case x.rex&8 != 0:
			n += 8
		case x.pfx&x86OpSize != 0:
			n += 2
		default:
			n += 4
		}
	}
	if form&x86Moffs != 0 {
		if n += 8; x.pfx&x86AddrSize != 0 {
			n -= 4
		}
	}
	return n
}

// adjust settles the opcodes whose immediate depends on the ModRM byte or on prefixes.
func (x *x86Inst) adjust(form x86Form) x86Form {
	if x.mode != x86Legacy {
		return form
	}
	reg := x.modrm >> 3 & 7
	switch {
	case x.space == 0 && x.op == 0xF6 && reg < 2: // TEST among NOT, NEG, MUL, DIV
		return form | x86Imm8
	case x.space == 0 && x.op == 0xF7 && reg < 2:
		return form | x86ImmZ
	case x.space == 1 && x.op == 0x78 && x.pfx&(x86OpSize|x86Repne) != 0: // EXTRQ, INSERTQ of SSE4a
		return form | x86Imm16
	}
	return form
}

// flow says what x, at address pc, does to the order of execution.
func (x *x86Inst) flow(pc uint64) (flow, uint64) {
	if !x.valid || x.mode != x86Legacy {
		return flowNext, 0
	}
	target := pc + uint64(x.len) + uint64(x.imm)
	if x.space == 1 {
		switch {
		case x.op&0xF0 == 0x80:
			return flowCond, target
		case x.op == 0x0B:
			return flowTrap, 0
		}
		return flowNext, 0
	}
	if x.space != 0 {
		return flowNext, 0
	}
	switch x.op {
	case 0xE8:
		return flowCall, target
	case 0xE9, 0xEB:
		return flowJump, target
	case 0xE0, 0xE1, 0xE2, 0xE3: // loop, jrcxz
		return flowCond, target
	case 0xC2, 0xC3, 0xCA, 0xCB, 0xCF:
		return flowRet, 0
	case 0xCC, 0xF4:
		return flowTrap, 0
	case 0xFF:
		switch x.modrm >> 3 & 7 {
		case 2, 3:
			return flowCallReg, 0
		case 4, 5:
			return flowJumpReg, 0
		}
	}
	if x.op&0xF0 == 0x70 {
		return flowCond, target
	}
	return flowNext, 0
}
