package insn

import (
	"encoding/binary"
	"math/bits"
)

// Register numbers with a fixed role in Go code on arm64.
const (
	armTmp  = 27 // the linker's scratch register for addresses
	armZero = 31 // zero register or stack pointer, by instruction
)

func armWord(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// Register fields, as the manual names them.
func armRd(w uint32) int { return int(w & 31) }
func armRn(w uint32) int { return int(w >> 5 & 31) }
func armR2(w uint32) int { return int(w >> 10 & 31) } // Rt2, Ra
func armRm(w uint32) int { return int(w >> 16 & 31) } // also Rs

// signExtend reads the low n bits of v as a signed number.
func signExtend(v uint32, n int) int64 {
	return int64(v) << (64 - n) >> (64 - n)
}

// armFlow says what instruction w, at address pc, does to the order of execution.
func armFlow(w uint32, pc uint64) (flow, uint64) {
	switch {
	case w>>26 == 0x05: // B
		return flowJump, pc + uint64(signExtend(w, 26)*4)
	case w>>26 == 0x25: // BL
		return flowCall, pc + uint64(signExtend(w, 26)*4)
	case w>>24 == 0x54, w>>25&0x3F == 0x1A: // B.cond; CBZ, CBNZ
		return flowCond, pc + uint64(signExtend(w>>5, 19)*4)
	case w>>25&0x3F == 0x1B: // TBZ, TBNZ
		return flowCond, pc + uint64(signExtend(w>>5, 14)*4)
	case w>>25 == 0x6B: // to a register; bit 24 marks those with pointer authentication
		switch w >> 21 & 7 {
		case 0:
			return flowJumpReg, 0
		case 1:
			return flowCallReg, 0
		case 2, 4: // RET, ERET
			return flowRet, 0
		}
	case w>>16 == 0, w>>21 == 0x6A1, w>>21 == 0x6A2: // UDF, BRK, HLT
		return flowTrap, 0
	}
	return flowNext, 0
}

// armMovWide returns the value of MOVZ or MOVN, or what MOVK makes of old.
func armMovWide(w uint32, old content) content {
	shift := w >> 21 & 3 * 16
	v := uint64(w>>5&0xFFFF) << shift
	wide := w>>31 == 1
	switch w >> 29 & 3 {
	case 0: // MOVN
		v = ^v
	case 3: // MOVK
		if old.kind != constant {
			return content{}
		}
		v |= old.val &^ (0xFFFF << shift)
	}
	if !wide {
		v = uint64(uint32(v))
	}
	return content{kind: constant, val: v}
}

// armBitmask decodes the immediate of AND, ORR and EOR: a run of ones, rotated
// and repeated.
func armBitmask(w uint32) (uint64, bool) {
	n, immr, imms := w>>22&1, w>>16&63, w>>10&63
	log := bits.Len32(n<<6|^imms&63) - 1 // of the width of the repeated element
	if log < 1 {
		return 0, false
	}
	size := uint32(1) << log
	ones, rot := imms&(size-1)+1, immr&(size-1)
	if ones == size {
		return 0, false
	}
	v := uint64(1)<<ones - 1
	mask := ^uint64(0) >> (64 - size)
	v = (v>>rot | v<<(size-rot)) & mask
	for ; size < 64; size *= 2 {
		v |= v << size
	}
	return v, true
}

// armAccess is a load or store.
type armAccess struct {
	op        string
	base      int
	offset    int64 // added to base for the access
	index     int   // register added to base, or -1
	shift     uint32
	size      int // bytes of one element
	count     int // elements, 1 or 2
	load      bool
	store     bool
	data      [2]int // the registers read or written, or -1 for vector registers
	status    int    // register that takes the result of an exclusive store, or -1
	writeback bool
	wbOffset  int // what writeback adds to base
}

// armDecodeAccess decodes the loads and stores that Go and C compilers use for
// variables. Those to several vector registers are not among them.
func armDecodeAccess(w uint32) (a armAccess, ok bool) {
	a = armAccess{base: armRn(w), index: -1, count: 1, data: [2]int{armRd(w), -1}, status: -1}
	switch {
	case w>>24&0x3F == 0x08:
		return armExclusive(w, a)
	case w>>27&7 == 5 && w>>25&1 == 0:
		return armPair(w, a)
	case w>>27&7 == 7:
		return armSingle(w, a)
	}
	return a, false
}

// armExclusive decodes the exclusive and ordered accesses and compare-and-swap.
func armExclusive(w uint32, a armAccess) (armAccess, bool) {
	a.size = 1 << (w >> 30)
	a.load = w>>22&1 == 1
	a.store = !a.load
	ordered, pair := w>>23&1 == 1, w>>21&1 == 1
	switch {
	case ordered && pair:
		a.op, a.load, a.store = "CAS", true, true
		a.data[0] = armRm(w) // the compared register takes the old value
	case ordered && a.load:
		a.op = "LDAR"
	case ordered:
		a.op = "STLR"
	case pair && w>>31 == 0: // CASP
		return a, false
	case a.load:
		a.op = "LDXR"
	default:
		a.op, a.status = "STXR", armRm(w)
	}
	if pair && !ordered {
		a.op, a.count, a.data[1] = a.op[:3]+"P", 2, armR2(w)
	}
	return a, true
}

// armPair decodes LDP and STP.
func armPair(w uint32, a armAccess) (armAccess, bool) {
	opc := w >> 30
	a.size, a.count = 4, 2
	a.data[1] = armR2(w)
	a.load = w>>22&1 == 1
	a.store = !a.load
	if a.op = "STP"; a.load {
		a.op = "LDP"
	}
	switch vector := w>>26&1 == 1; {
	case opc == 3:
		return a, false
	case vector:
		a.size = 4 << opc
		a.data = [2]int{-1, -1}
	case opc == 2:
		a.size = 8
	case opc == 1 && a.load:
		a.op = "LDPSW"
	case opc == 1: // store of allocation tags
		return a, false
	}
	a.offset = signExtend(w>>15, 7) * int64(a.size)
	mode := w >> 23 & 3
	a.writeback, a.wbOffset = mode&1 == 1, int(a.offset)
	if mode == 1 { // post-index
		a.offset = 0
	}
	return a, true
}

// armSingle decodes the loads and stores of one register and the atomic updates.
func armSingle(w uint32, a armAccess) (armAccess, bool) {
	size, vector, opc := w>>30, w>>26&1 == 1, w>>22&3
	unsigned, mode := w>>24&1 == 1, w>>10&3
	a.size = 1 << size
	if !unsigned && w>>21&1 == 1 && mode != 2 {
		return armAtomic(w, a)
	}
	a.load = opc != 0
	switch {
	case vector && opc >= 2 && size != 0:
		return a, false
	case vector:
		a.data[0] = -1
		if a.load = opc&1 == 1; opc >= 2 {
			a.size = 16
		}
	case size == 3 && opc == 2: // prefetch
		return a, false
	}
	a.store = !a.load
	switch a.op = "LDR"; {
	case a.store:
		a.op = "STR"
	case !vector && opc >= 2:
		a.op = "LDRS"
	}
	switch {
	case unsigned:
		a.offset = int64(w>>10&0xFFF) * int64(a.size)
	case w>>21&1 == 1:
		a.index = armRm(w)
		if w>>12&1 == 1 {
			a.shift = uint32(bits.TrailingZeros(uint(a.size)))
		}
	default:
		a.offset = signExtend(w>>12, 9)
		a.writeback, a.wbOffset = mode&1 == 1, int(a.offset)
		if mode == 1 { // post-index
			a.offset = 0
		}
	}
	return a, true
}

// armAtomic decodes the atomic updates (LDADD and its kin, SWP) and LDAPR.
func armAtomic(w uint32, a armAccess) (armAccess, bool) {
	if w>>26&1 == 1 || w>>10&3 != 0 {
		return a, false
	}
	a.op, a.load, a.store = "LDADD", true, true
	switch w >> 12 & 15 {
	case 8:
		a.op = "SWP"
	case 12:
		a.op, a.store = "LDAPR", false
	}
	return a, true
}
