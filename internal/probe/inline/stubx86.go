package inline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// Registers of amd64 by their numbers in machine code.
const (
	rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi = 0, 1, 2, 3, 4, 5, 6, 7
	r8, r9, r10, r11, r12, r13, r14        = 8, 9, 10, 11, 12, 13, 14
)

// x86Saved are the registers that C code may change, and their places in struct regs (native.h).
var x86Saved = []struct {
	reg  uint8
	word int32
}{{rax, 10}, {rcx, 11}, {rdx, 12}, {rsi, 13}, {rdi, 14}, {r8, 9}, {r9, 8}, {r10, 7}, {r11, 6}}

// Those that probes read beside them.
const (
	x86WordBX, x86WordBP, x86WordSP = 5, 4, 19
)

// x86 generates the body on amd64. R12 is the lane; C code preserves it.
func (b *body) x86() ([]byte, error) {
	switch {
	case b.G == rsp, b.G == r12, b.G == r13:
		return nil, fmt.Errorf("the current g is in register %d", b.G)
	case b.G == csrc.NoRegister && b.config.G_tls == 0:
		return nil, errors.New("the location of the current g is unknown")
	}
	a := x86Code{addr: b.Addr}
	b.x86Lane(&a)
	a.label("taken")
	g := b.G
	if g == csrc.NoRegister {
		a.loadTLS(r13, b.config.G_tls)
		g = r13
	}
	a.store(r12, offG, g)
	for _, s := range x86Saved {
		a.store(r12, offRegs+8*s.word, s.reg)
	}
	switch {
	case b.coarse:
		a.loadRelative(rdx, b.settings+uint64(offShared))
		a.countTime(rdx, offTicks)
		a.store(r12, offStamp, rax)
	case !b.Untimed:
		if b.Fence {
			a.fence()
		}
		a.readTime()
		a.atLeast(r12, offStamp)
		a.store(r12, offStamp, rax)
	}
	a.store(r12, offRegs+8*x86WordBX, rbx)
	bp := uint8(rbp)
	if b.Framed {
		a.load(r13, rbp, 0)
		bp = r13
	}
	a.store(r12, offRegs+8*x86WordBP, bp)
	sp := uint8(rsp)
	if b.SPAdjust != 0 {
		a.lea(r13, rsp, b.SPAdjust)
		sp = r13
	}
	a.store(r12, offRegs+8*x86WordSP, sp)
	a.lea(rdi, r12, offRegs)
	a.lea(rsp, r12, stackTop)
	a.call(b.function)
	a.load(rsp, r12, offRegs+8*x86WordSP)
	if b.SPAdjust != 0 {
		a.lea(rsp, rsp, -b.SPAdjust)
	}
	for _, s := range x86Saved {
		a.load(s.reg, r12, offRegs+8*s.word)
	}
	a.incMem64(r12, offTurns, false)
	a.storeZero32(r12, offBusy)
	a.jump("end")
	b.x86Busy(&a)
	a.label("end")
	return a.finish()
}

// x86Lane selects a lane by the thread's P, or by its M if it has no P, and tries to take it.
func (b *body) x86Lane(a *x86Code) {
	a.loadRelative(r12, b.settings+uint64(offShared))
	a.test(r12)
	a.jumpIf(x86Equal, "end")
	a.compareZero32(r12, offEnabled)
	a.jumpIf(x86Equal, "end")
	g := b.G
	if g == csrc.NoRegister {
		a.loadTLS(r12, b.config.G_tls)
		g = r12
	}
	a.test(g)
	a.jumpIf(x86Equal, "end")
	a.load(r12, g, int32(b.config.G_m))
	a.test(r12)
	a.jumpIf(x86Equal, "end")
	a.load(r13, r12, int32(b.config.M_p))
	a.test(r13)
	a.jumpIf(x86Equal, "no P")
	a.load32(r12, r13, int32(b.config.P_id))
	a.label("number")
	a.and32(r12, uint32(b.lanes-1))
	a.shiftLeft(r12, spanShift)
	a.addRelative(r12, b.settings+uint64(offLanes))
	a.bitTestAndSet(r12, offBusy)
	a.jumpIf(x86Carry, "busy")
}

// x86Busy tries the other lanes in turn, and counts the hit as lost if all are in use.
func (b *body) x86Busy(a *x86Code) {
	a.label("busy")
	a.move32(r13, uint32(b.lanes-1))
	a.label("try")
	a.lea(r12, r12, 1<<spanShift)
	a.compareRelative(r12, b.settings+uint64(offLanesEnd))
	a.jumpIf(x86Below, "inside")
	a.loadRelative(r12, b.settings+uint64(offLanes))
	a.label("inside")
	a.bitTestAndSet(r12, offBusy)
	a.jumpIf(x86NoCarry, "taken")
	a.decrement32(r13)
	a.jumpIf(x86NotEqual, "try")
	a.loadRelative(r12, b.settings+uint64(offShared))
	a.incMem64(r12, offMissed+8*int32(b.number), true)
	a.incMem32(r12, offLost)
	a.jump("end")
	a.label("no P")
	a.shiftRight(r12, mShift)
	a.jump("number")
}

// x86Code assembles machine code for amd64. Offsets have four bytes if one is too small.
type x86Code struct {
	addr   uint64
	code   []byte
	labels map[string]int
	jumps  []x86Jump
	err    error
}

type x86Jump struct {
	at int // of the four bytes to set
	to string
}

// Conditions, as they are in the opcodes of jumps.
const (
	x86Carry    = 0x2
	x86Below    = 0x2
	x86NoCarry  = 0x3
	x86Equal    = 0x4
	x86NotEqual = 0x5
)

func (a *x86Code) emit(b ...byte)  { a.code = append(a.code, b...) }
func (a *x86Code) emit32(v uint32) { a.code = binary.LittleEndian.AppendUint32(a.code, v) }

func (a *x86Code) label(name string) {
	if a.labels == nil {
		a.labels = map[string]int{}
	}
	a.labels[name] = len(a.code)
}

// memory emits an instruction with a register and memory at base+offset.
func (a *x86Code) memory(wide bool, opcode []byte, reg, base uint8, offset int32) {
	rex := byte(0x40) | reg>>3<<2 | base>>3
	if wide {
		rex |= 8
	}
	if rex != 0x40 {
		a.emit(rex)
	}
	a.emit(opcode...)
	mod := byte(0x80)
	if offset == int32(int8(offset)) {
		mod = 0x40
	}
	a.emit(mod | reg&7<<3 | base&7)
	if base&7 == rsp {
		a.emit(0x24)
	}
	if mod == 0x40 {
		a.emit(byte(offset))
	} else {
		a.emit32(uint32(offset))
	}
}

// relative emits an instruction with a register and memory at an address.
func (a *x86Code) relative(opcode byte, reg uint8, address uint64) {
	a.emit(0x48|reg>>3<<2, opcode, reg&7<<3|5)
	a.distance(address)
}

// distance emits the distance of an address from the end of the instruction, which ends here.
func (a *x86Code) distance(address uint64) {
	d := int64(address - (a.addr + uint64(len(a.code)) + 4))
	if d < math.MinInt32 || d > math.MaxInt32 {
		a.err = fmt.Errorf("%#x is too far from %#x", address, a.addr)
	}
	a.emit32(uint32(d))
}

func (a *x86Code) load(to, base uint8, offset int32) { a.memory(true, []byte{0x8b}, to, base, offset) }
func (a *x86Code) load32(to, base uint8, offset int32) {
	a.memory(false, []byte{0x8b}, to, base, offset)
}
func (a *x86Code) store(base uint8, offset int32, r uint8) {
	a.memory(true, []byte{0x89}, r, base, offset)
}
func (a *x86Code) lea(to, base uint8, offset int32)   { a.memory(true, []byte{0x8d}, to, base, offset) }
func (a *x86Code) loadRelative(to uint8, at uint64)   { a.relative(0x8b, to, at) }
func (a *x86Code) addRelative(to uint8, at uint64)    { a.relative(0x03, to, at) }
func (a *x86Code) compareRelative(r uint8, at uint64) { a.relative(0x3b, r, at) }
func (a *x86Code) test(r uint8)                       { a.emit(0x48|r>>3*5, 0x85, 0xc0|r&7*9) }
func (a *x86Code) move32(to uint8, v uint32)          { a.emit(0x41, 0xb8|to&7); a.emit32(v) }
func (a *x86Code) and32(r uint8, v uint32)            { a.emit(0x41, 0x81, 0xe0|r&7); a.emit32(v) }
func (a *x86Code) decrement32(r uint8)                { a.emit(0x41, 0xff, 0xc8|r&7) }
func (a *x86Code) shiftLeft(r uint8, n byte)          { a.emit(0x49, 0xc1, 0xe0|r&7, n) }
func (a *x86Code) shiftRight(r uint8, n byte)         { a.emit(0x49, 0xc1, 0xe8|r&7, n) }

// fence makes later instructions wait until all earlier ones have completed.
func (a *x86Code) fence() { a.emit(0x0f, 0xae, 0xe8) } // LFENCE

// atLeast sets RAX to the larger of itself and a word.
func (a *x86Code) atLeast(base uint8, offset int32) {
	a.memory(true, []byte{0x3b}, rax, base, offset)       // CMP
	a.memory(true, []byte{0x0f, 0x42}, rax, base, offset) // CMOVB
}

// readTime reads the counter into RAX, possibly before earlier instructions have completed. It changes RDX.
func (a *x86Code) readTime() {
	a.emit(0x0f, 0x31)             // RDTSC
	a.emit(0x48, 0xc1, 0xe2, 0x20) // SHL RDX, 32
	a.emit(0x48, 0x09, 0xd0)       // OR RAX, RDX
}

// countTime atomically increments a word and sets RAX to the previous value.
func (a *x86Code) countTime(base uint8, offset int32) {
	a.emit(0xb8, 1, 0, 0, 0) // MOV EAX, 1
	a.emit(0xf0)
	a.memory(true, []byte{0x0f, 0xc1}, rax, base, offset) // XADD
}

// loadTLS loads a word of thread-local storage: at FS plus an offset.
func (a *x86Code) loadTLS(to uint8, offset int32) {
	a.emit(0x64, 0x48|to>>3<<2, 0x8b, to&7<<3|4, 0x25)
	a.emit32(uint32(offset))
}

func (a *x86Code) compareZero32(base uint8, offset int32) {
	a.memory(false, []byte{0x83}, 7, base, offset)
	a.emit(0)
}

func (a *x86Code) storeZero32(base uint8, offset int32) {
	a.memory(false, []byte{0xc7}, 0, base, offset)
	a.emit32(0)
}

// bitTestAndSet atomically sets bit 0 of a word. The carry flag is its previous value.
func (a *x86Code) bitTestAndSet(base uint8, offset int32) {
	a.emit(0xf0)
	a.memory(false, []byte{0x0f, 0xba}, 5, base, offset)
	a.emit(0)
}

func (a *x86Code) incMem32(base uint8, offset int32) {
	a.emit(0xf0)
	a.memory(false, []byte{0xff}, 0, base, offset)
}

func (a *x86Code) incMem64(base uint8, offset int32, locked bool) {
	if locked {
		a.emit(0xf0)
	}
	a.memory(true, []byte{0xff}, 0, base, offset)
}

func (a *x86Code) call(address uint64) {
	a.emit(0xe8)
	a.distance(address)
}

func (a *x86Code) jump(to string) {
	a.emit(0xe9)
	a.target(to)
}

func (a *x86Code) jumpIf(condition byte, to string) {
	a.emit(0x0f, 0x80|condition)
	a.target(to)
}

func (a *x86Code) target(to string) {
	a.jumps = append(a.jumps, x86Jump{len(a.code), to})
	a.emit32(0)
}

// finish resolves the distances of jumps.
func (a *x86Code) finish() ([]byte, error) {
	for _, j := range a.jumps {
		binary.LittleEndian.PutUint32(a.code[j.at:], uint32(a.labels[j.to]-(j.at+4)))
	}
	return a.code, a.err
}
