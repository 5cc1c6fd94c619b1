package native

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrMalformed reports that a file contradicts the formats it uses.
var ErrMalformed = errors.New("malformed ELF file")

// An Image is an ELF file with machine code. Its addresses are those in the file. Its methods may be called from several goroutines.
type Image struct {
	r    io.ReaderAt
	elf  *elf.File
	arch *arch
	segs []segment

	symbols func() []symbol    // sorted by address
	index   func() *frameIndex // of the call frame information; nil without

	mu   sync.Mutex
	rows map[uint64]cachedRow // by address
}

// segment is a part of the file that is mapped into memory.
type segment struct {
	addr, off, size uint64
	exec            bool
}

// Open returns the image that a file holds. The file must stay open as long as the image is used.
func Open(r io.ReaderAt) (*Image, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	im := &Image{r: r, elf: f, arch: arches[f.Machine], rows: map[uint64]cachedRow{}}
	if im.arch == nil || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return nil, fmt.Errorf("%w: %v, %v, %v", ErrMalformed, f.Machine, f.Class, f.Data)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Filesz > 0 {
			im.segs = append(im.segs, segment{p.Vaddr, p.Off, p.Filesz, p.Flags&elf.PF_X != 0})
		}
	}
	im.symbols, im.index = sync.OnceValue(im.readSymbols), sync.OnceValue(im.readIndex)
	return im, nil
}

// LoadBias returns the difference between addresses in memory and in the file, if the code at an offset of the file is mapped at
// start. ok is false if the file has no code there.
func (im *Image) LoadBias(start, offset uint64) (bias uint64, ok bool) {
	const maxPage = 64 << 10
	for _, s := range im.segs {
		if s.exec && s.off >= offset && s.off-offset < maxPage {
			return start - (s.addr - (s.off - offset)), true
		}
	}
	return 0, false
}

// read fills b with the contents of the file at an address.
func (im *Image) read(b []byte, addr uint64) error {
	for _, s := range im.segs {
		if addr >= s.addr && addr-s.addr <= s.size && uint64(len(b)) <= s.size-(addr-s.addr) {
			_, err := im.r.ReadAt(b, int64(s.off+(addr-s.addr)))
			return err
		}
	}
	return fmt.Errorf("%w: no contents at %#x", ErrMalformed, addr)
}

// FollowsCall reports whether the instruction before an address is a call, so that the address can be one to which it returns.
func (im *Image) FollowsCall(addr uint64) bool {
	var code [8]byte
	n := uint64(len(code))
	for n > 0 && (addr < n || im.read(code[8-n:], addr-n) != nil) {
		n--
	}
	return im.arch.followsCall(code[:])
}

// arch is what differs between machines.
type arch struct {
	fp, sp, pc  uint64 // DWARF numbers of registers; pc is noRegister if it has none
	links       bool   // a call leaves its return address in a register
	followsCall func(code []byte) bool
	addresses   uint64 // the bits of addresses in user mode: others may sign a return address
}

const noRegister = 1 << 32

var arches = map[elf.Machine]*arch{
	elf.EM_X86_64:  {fp: 6, sp: 7, pc: 16, followsCall: followsCallAMD64, addresses: 1<<57 - 1},
	elf.EM_AARCH64: {fp: 29, sp: 31, pc: noRegister, links: true, followsCall: followsCallARM64, addresses: 1<<48 - 1},
}

// followsCallAMD64 reports whether code ends with a call: E8 with an offset, or FF /2 with an operand of any length.
func followsCallAMD64(code []byte) bool {
	n := len(code)
	if code[n-5] == 0xe8 {
		return true
	}
	for _, size := range []int{2, 3, 4, 6, 7} {
		if b := code[n-size:]; b[0] == 0xff && b[1]>>3&7 == 2 {
			return true
		}
	}
	return false
}

// followsCallARM64 reports whether code ends with BL, BLR or an authenticating BLR.
func followsCallARM64(code []byte) bool {
	in := binary.LittleEndian.Uint32(code[len(code)-4:])
	return in>>26 == 0x25 || in&0xfffffc1f == 0xd63f0000 || in&0xfefff800 == 0xd63f0800
}
