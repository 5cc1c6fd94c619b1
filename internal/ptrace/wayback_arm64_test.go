package ptrace

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// excursion is code that leaves for a foothold, as a thread does whose registers a tracer has set, and is come back to at
// its second part. The words in between hold the address of a block: of what it keeps, then of what it leaves with.
var excursion = []uint32{
	0x580001a9, // ldr  x9, block
	0xf900013d, // str  x29, [x9]
	0xf900053e, // str  x30, [x9, #8]
	0x910003ea, // mov  x10, sp
	0xf900092a, // str  x10, [x9, #16]
	0xf9000d3c, // str  x28, [x9, #24]
	0xf9401128, // ldr  x8, [x9, #32]
	0xf9401520, // ldr  x0, [x9, #40]
	0xf940192a, // ldr  x10, [x9, #48]
	0xf9401d2b, // ldr  x11, [x9, #56]
	0x9100015f, // mov  sp, x10
	0xd61f0160, // br   x11
	0xd503201f, // nop
	0, 0,       // block
	0xa90007e0, 0xa9010fe2, 0xa90217e4, 0xa9031fe6, 0xa90427e8, 0xa9052fea, 0xa90637ec, 0xa9073fee, // stp x0, x1, [sp] ...
	0xa90847f0, 0xa9094ff2, 0xa90a57f4, 0xa90b5ff6, 0xa90c67f8, 0xa90d6ffa, 0xa90e77fc, // ... stp x28, x29, [sp, #224]
	0xf9007bfe, // str  x30, [sp, #240]
	0xd53b4200, // mrs  x0, nzcv
	0xf9007fe0, // str  x0, [sp, #248]
	0x3d8043e0, // str  q0, [sp, #256]
	0x3d8047ff, // str  q31, [sp, #272]
	0x58fffd49, // ldr  x9, block
	0xf940013d, // ldr  x29, [x9]
	0xf940053e, // ldr  x30, [x9, #8]
	0xf940092a, // ldr  x10, [x9, #16]
	0x9100015f, // mov  sp, x10
	0xf9400d3c, // ldr  x28, [x9, #24]
	0xd65f03c0, // ret
}

const (
	excursionBlock = 13 * 4 // where the address stands
	excursionBack  = 15 * 4
)

// TestWayBack makes a system call by the code of a foothold, in this very thread, and comes back by the frame behind it:
// with the registers, flags and vectors that the frame holds, and the call made.
func TestWayBack(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const page = 1 << 16
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	at := uint64(uintptr(unsafe.Pointer(&mem[0])))
	foothold, block, dump := at+page, at+2*page, at+3*page

	le := binary.LittleEndian
	for i, w := range excursion {
		le.PutUint32(mem[4*i:], w)
	}
	le.PutUint64(mem[excursionBlock:], block)
	want := Registers{Sp: dump, Pc: at + excursionBack, Pstate: 0xa0000000}
	for i := range want.Regs {
		want.Regs[i] = 0x0101010101010101 * uint64(i+1)
	}
	state := make([]byte, 32*16+16)
	for i := range 32 * 16 {
		state[i] = byte(i*3 + 1)
	}
	copy(mem[page:], wayBack)
	frame := buildFrame(foothold+footholdFrame, &want, 0, 0)
	copy(mem[page+footholdFrame:], append(frame, frameFP(state, page)...))
	for i, v := range []uint64{unix.SYS_CLOSE, uint64(p[1]), frameSP(foothold + footholdFrame), foothold} {
		le.PutUint64(mem[2*page+32+8*i:], v)
	}
	code := &mem[0]
	(*(*func())(unsafe.Pointer(&[]*unsafe.Pointer{(*unsafe.Pointer)(unsafe.Pointer(&code))}[0])))()

	got := func(i int) uint64 { return le.Uint64(mem[3*page+8*i:]) }
	for i, v := range want.Regs {
		if got(i) != v {
			t.Errorf("register %d is %#x, want %#x", i, got(i), v)
		}
	}
	if got(31) != want.Pstate {
		t.Errorf("flags are %#x, want %#x", got(31), want.Pstate)
	}
	for i, from := range []int{0, 31 * 16} {
		if v := mem[3*page+256+16*i:][:16]; string(v) != string(state[from:from+16]) {
			t.Errorf("vector at %d is %x, want %x", from, v, state[from:from+16])
		}
	}
	if err := unix.Close(p[1]); !errors.Is(err, unix.EBADF) {
		t.Errorf("the call was not made: closing the file again: %v", err)
	}
}
