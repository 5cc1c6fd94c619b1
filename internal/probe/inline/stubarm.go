package inline

import (
	"encoding/binary"
	"fmt"
)

// Registers of arm64 that a body uses. Those from x19 on survive C code.
const (
	x0, x16, x17                           = 0, 16, 17
	x19, x20, x21, x22, x23, x24, x25, x28 = 19, 20, 21, 22, 23, 24, 25, 28
	x29, x30, xzr                          = 29, 30, 31
	armSP                                  = 31
	armWordSP                              = 31 // place of SP in struct regs (native.h)
)

// arm generates the body on arm64. x19 is the lane, x24 the stack pointer.
func (b *body) arm() ([]byte, error) {
	if b.G != x28 {
		return nil, fmt.Errorf("the current g is in register %d", b.G)
	}
	a := armCode{addr: b.Addr}
	b.armLane(&a)
	a.label("taken")
	switch {
	case b.coarse:
		a.countTime(x20, x17, offTicks)
		a.store(x19, offStamp, x20)
	case !b.Untimed:
		a.readTime(x20)
		a.load(x21, x19, offStamp)
		a.greater(x20, x21)
		a.store(x19, offStamp, x20)
	}
	a.store(x19, offG, x28)
	for r := uint8(0); r < 16; r += 2 {
		a.storePair(x19, offRegs+8*int32(r), r, r+1)
	}
	fp := uint8(x29)
	if b.Framed {
		a.load(x25, x29, 0)
		fp = x25
	}
	a.storePair(x19, offRegs+8*x29, fp, x30)
	a.addImmediate(x24, armSP, 0)
	a.moveImmediate(x25, uint64(int64(b.SPAdjust)))
	a.add(x25, x24, x25, 0)
	a.store(x19, offRegs+8*armWordSP, x25)
	a.moveImmediate(x25, uint64(stackTop))
	a.add(x25, x19, x25, 0)
	a.addImmediate(armSP, x25, 0)
	a.addImmediate(x0, x19, offRegs)
	a.callFar(b.function)
	a.addImmediate(armSP, x24, 0)
	for r := uint8(0); r < 16; r += 2 {
		a.loadPair(x19, offRegs+8*int32(r), r, r+1)
	}
	a.load(x30, x19, offRegs+8*x30)
	a.load(x20, x19, offTurns)
	a.addImmediate(x20, x20, 1)
	a.addImmediate(x25, x19, offTurns)
	a.storeRelease(x25, x20)
	a.storeRelease32(x19, xzr) // busy is the lane's first word
	a.jump("end")
	b.armBusy(&a)
	a.label("end")
	return a.finish()
}

// armLane selects a lane by the thread's P, or by its M if it has no P, and tries to take it.
func (b *body) armLane(a *armCode) {
	a.page(x16, b.settings)
	low := int32(b.settings % armPage)
	a.load(x17, x16, low+offShared)
	a.jumpIfZero(x17, "end")
	a.load32(x20, x17, offEnabled)
	a.jumpIfZero(x20, "end")
	a.jumpIfZero(x28, "end")
	a.load(x20, x28, int32(b.config.G_m))
	a.jumpIfZero(x20, "end")
	a.load(x21, x20, int32(b.config.M_p))
	a.jumpIfZero(x21, "no P")
	a.load32(x21, x21, int32(b.config.P_id))
	a.label("number")
	a.moveImmediate(x20, uint64(b.lanes-1))
	a.and(x21, x21, x20)
	a.load(x22, x16, low+offLanes)
	a.add(x19, x22, x21, spanShift)
	a.moveImmediate(x23, uint64(b.lanes))
	a.label("try")
	a.loadAcquireExclusive32(x20, x19)
	a.jumpIfNotZero32(x20, "busy")
	a.moveImmediate(x21, 1)
	a.storeExclusive32(x25, x21, x19)
	a.jumpIfNotZero32(x25, "try")
}

// armBusy tries the other lanes in turn, and counts the hit as lost if all are in use.
func (b *body) armBusy(a *armCode) {
	a.label("busy")
	a.clearExclusive()
	a.moveImmediate(x20, 1<<spanShift)
	a.add(x19, x19, x20, 0)
	a.load(x20, x16, int32(b.settings%armPage)+offLanesEnd)
	a.subtractFlags(x19, x20)
	a.jumpIfBelow("inside")
	a.add(x19, x22, xzr, 0)
	a.label("inside")
	a.subtractOne(x23)
	a.jumpIfNotZero32(x23, "try")
	a.increment(x17, offMissed+8*int32(b.number), true, "missed")
	a.increment(x17, offLost, false, "lost")
	a.jump("end")
	a.label("no P")
	a.shiftRight(x21, x20, mShift)
	a.jump("number")
}

const armPage = 4 << 10 // the unit of ADRP

// armCode assembles machine code for arm64.
type armCode struct {
	addr   uint64
	words  []uint32
	labels map[string]int
	jumps  []armJump
	err    error
}

type armJump struct {
	at   int
	to   string
	bits uint // of the distance in the instruction
	low  uint // its lowest bit there
}

func (a *armCode) emit(w uint32) { a.words = append(a.words, w) }

func (a *armCode) label(name string) {
	if a.labels == nil {
		a.labels = map[string]int{}
	}
	a.labels[name] = len(a.words)
}

func (a *armCode) fail(format string, args ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(format, args...)
	}
}

// readTime reads the counter (CNTVCT_EL0) after all earlier instructions have completed.
func (a *armCode) readTime(to uint8) {
	a.emit(0xd5033fdf) // ISB
	a.emit(0xd53be040 | uint32(to))
}

// greater sets a register to the larger of itself and another.
func (a *armCode) greater(r, s uint8) {
	a.subtractFlags(r, s)
	a.emit(0x9a802000 | uint32(s)<<16 | uint32(r)<<5 | uint32(r)) // CSEL r, r, s, HS
}

// countTime atomically increments a word and sets a register to the previous value. It changes
// x21, x23 and x25.
func (a *armCode) countTime(to, base uint8, offset int32) {
	a.moveImmediate(x25, uint64(offset))
	a.add(x25, base, x25, 0)
	a.label("count")
	a.emit(0xc85ffc00 | x25<<5 | uint32(to)) // LDAXR
	a.moveImmediate(x21, 1)
	a.add(x21, to, x21, 0)
	a.emit(0xc800fc00 | x23<<16 | x25<<5 | x21) // STLXR
	a.jumpIfNotZero32(x23, "count")
}

// memory emits an instruction with a 12-bit offset in units of the word's size.
func (a *armCode) memory(opcode uint32, r, base uint8, offset, size int32) {
	if offset < 0 || offset%size != 0 || offset/size > 0xfff {
		a.fail("a field at %d is out of reach", offset)
	}
	a.emit(opcode | uint32(offset/size)&0xfff<<10 | uint32(base)<<5 | uint32(r))
}

func (a *armCode) load(to, base uint8, offset int32)       { a.memory(0xf9400000, to, base, offset, 8) }
func (a *armCode) load32(to, base uint8, offset int32)     { a.memory(0xb9400000, to, base, offset, 4) }
func (a *armCode) store(base uint8, offset int32, r uint8) { a.memory(0xf9000000, r, base, offset, 8) }

// pair emits an instruction for two words with a signed 7-bit offset.
func (a *armCode) pair(opcode uint32, base uint8, offset int32, first, second uint8) {
	if offset%8 != 0 || offset < -512 || offset > 504 {
		a.fail("a pair at %d is out of reach", offset)
	}
	a.emit(opcode | uint32(offset/8)&0x7f<<15 | uint32(second)<<10 | uint32(base)<<5 | uint32(first))
}

func (a *armCode) storePair(base uint8, offset int32, r, s uint8) {
	a.pair(0xa9000000, base, offset, r, s)
}
func (a *armCode) loadPair(base uint8, offset int32, r, s uint8) {
	a.pair(0xa9400000, base, offset, r, s)
}

// addImmediate adds a small number. Register 31 is the stack pointer.
func (a *armCode) addImmediate(to, r uint8, n int32) {
	a.emit(0x91000000 | uint32(n)&0xfff<<10 | uint32(r)<<5 | uint32(to))
}

// add adds a register that is shifted left. Register 31 is zero.
func (a *armCode) add(to, r, s uint8, shift uint32) {
	a.emit(0x8b000000 | uint32(s)<<16 | shift<<10 | uint32(r)<<5 | uint32(to))
}

func (a *armCode) and(to, r, s uint8)       { a.emit(0x8a000000 | uint32(s)<<16 | uint32(r)<<5 | uint32(to)) }
func (a *armCode) subtractFlags(r, s uint8) { a.emit(0xeb00001f | uint32(s)<<16 | uint32(r)<<5) }
func (a *armCode) subtractOne(r uint8)      { a.emit(0x51000400 | uint32(r)<<5 | uint32(r)) }

func (a *armCode) shiftRight(to, r uint8, n uint32) {
	a.emit(0xd340fc00 | n<<16 | uint32(r)<<5 | uint32(to))
}

// moveImmediate loads a constant with the fewest instructions.
func (a *armCode) moveImmediate(to uint8, v uint64) {
	a.emit(0xd2800000 | uint32(v&0xffff)<<5 | uint32(to))
	for half := uint32(1); half < 4; half++ {
		if part := uint32(v >> (16 * half) & 0xffff); part != 0 {
			a.emit(0xf2800000 | half<<21 | part<<5 | uint32(to))
		}
	}
}

// page loads the start of the page of an address.
func (a *armCode) page(to uint8, address uint64) {
	here := a.addr + uint64(4*len(a.words))
	pages := int64(address/armPage) - int64(here/armPage)
	if pages < -1<<20 || pages >= 1<<20 {
		a.fail("%#x is too far from %#x", address, a.addr)
	}
	p := uint32(pages)
	a.emit(0x90000000 | p&3<<29 | p>>2&(1<<19-1)<<5 | uint32(to))
}

// callFar calls a function: relative, or through x16 if it is too far.
func (a *armCode) callFar(address uint64) {
	d := int64(address-(a.addr+uint64(4*len(a.words)))) / 4
	if d >= -1<<25 && d < 1<<25 {
		a.emit(0x94000000 | uint32(d)&(1<<26-1))
		return
	}
	a.moveImmediate(x16, address)
	a.emit(0xd63f0000 | x16<<5)
}

func (a *armCode) loadAcquireExclusive32(to, at uint8) {
	a.emit(0x885ffc00 | uint32(at)<<5 | uint32(to))
}
func (a *armCode) clearExclusive()            { a.emit(0xd5033f5f) }
func (a *armCode) storeRelease32(at, r uint8) { a.emit(0x889ffc00 | uint32(at)<<5 | uint32(r)) }
func (a *armCode) storeRelease(at, r uint8)   { a.emit(0xc89ffc00 | uint32(at)<<5 | uint32(r)) }

// storeExclusive32 stores a word; failed is 0 if no other processor has written it since it was loaded.
func (a *armCode) storeExclusive32(failed, r, at uint8) {
	a.emit(0x88007c00 | uint32(failed)<<16 | uint32(at)<<5 | uint32(r))
}

// increment atomically adds one to a counter. It uses x19 to x21.
func (a *armCode) increment(base uint8, offset int32, wide bool, label string) {
	size := uint32(0)
	if wide {
		size = 1 << 30
	}
	a.moveImmediate(x19, uint64(offset))
	a.add(x19, base, x19, 0)
	a.label(label)
	a.emit(0x885f7c00 | size | x19<<5 | x20) // LDXR
	a.addImmediate(x20, x20, 1)
	a.emit(0x88007c00 | size | x21<<16 | x19<<5 | x20) // STXR
	a.jumpIfNotZero32(x21, label)
}

func (a *armCode) jump(to string)                     { a.branch(0x14000000, to, 26, 0) }
func (a *armCode) jumpIfBelow(to string)              { a.branch(0x54000003, to, 19, 5) }
func (a *armCode) jumpIfZero(r uint8, to string)      { a.branch(0xb4000000|uint32(r), to, 19, 5) }
func (a *armCode) jumpIfNotZero32(r uint8, to string) { a.branch(0x35000000|uint32(r), to, 19, 5) }

func (a *armCode) branch(opcode uint32, to string, bits, low uint) {
	a.jumps = append(a.jumps, armJump{len(a.words), to, bits, low})
	a.emit(opcode)
}

// finish resolves the distances of jumps.
func (a *armCode) finish() ([]byte, error) {
	var code []byte
	for _, j := range a.jumps {
		d := uint32(a.labels[j.to]-j.at) & (1<<j.bits - 1)
		a.words[j.at] |= d << j.low
	}
	for _, w := range a.words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code, a.err
}
