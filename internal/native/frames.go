package native

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
)

// Registers are the registers of a frame that finding its caller requires.
type Registers struct {
	PC, SP, FP uint64
	LR         uint64 // only where the machine has it, and only of the innermost frame
}

// Why the caller of a frame is unknown.
var (
	ErrNoInfo    = errors.New("no call frame information")
	ErrStackEnds = errors.New("the copy of the stack ends")
	errRule      = errors.New("unsupported rule in the call frame information")
)

// Caller returns the registers of the caller of a frame in this image. PC is the address in the file, of the instruction that
// was executed last: for a caller, an address within its call instruction. stack reads a word of the stack. The PC that is
// returned is an address in memory, that to which the function returns, 0 if the frame is the outermost one. exact says that it is
// the address of an instruction that was interrupted by a signal, and not one to which a call returns.
//
// The error is ErrNoInfo if the image does not describe the frame, and ErrStackEnds if a word of the stack cannot be read.
func (im *Image) Caller(r Registers, stack func(addr uint64) (uint64, bool)) (caller Registers, exact bool, err error) {
	row, err := im.row(r.PC)
	if err != nil {
		return Registers{}, false, err
	}
	if !im.arch.links {
		r.LR = 0
	}
	e := evaluator{im.arch, &r, stack}
	cfa, err := e.address(row.cfa)
	if err != nil {
		return Registers{}, false, err
	}
	caller.SP = cfa
	if row.signal {
		caller.SP, err = e.value(row.sp, cfa, cfa)
	}
	if err == nil {
		caller.FP, err = e.value(row.fp, cfa, r.FP)
	}
	if err == nil {
		caller.PC, err = e.value(row.ra, cfa, r.LR)
	}
	if err != nil {
		return Registers{}, false, err
	}
	caller.PC &= im.arch.addresses
	return caller, row.signal, nil
}

// frameIndex is the table of an image that finds the description of a function: .eh_frame_hdr of the Linux Standard Base.
type frameIndex struct {
	addr    uint64 // of the section: what the entries are relative to
	entries []byte // of two 32-bit words each, sorted: the start of a function, and its description
}

// The only encodings of pointers that linkers write into the index.
const (
	encodedSize   = 0x03 // an unsigned 32-bit number
	encodedEntry  = 0x3b // signed 32-bit numbers, relative to the section
	encodedOffset = 0x1b // a signed 32-bit number, relative to itself
)

func (im *Image) readIndex() *frameIndex {
	for _, p := range im.elf.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME || p.Filesz > maxTable {
			continue
		}
		var head [12]byte
		if im.read(head[:], p.Vaddr) != nil || head[0] != 1 || head[1] != encodedOffset || head[2] != encodedSize || head[3] != encodedEntry {
			return nil
		}
		size := 8 * uint64(binary.LittleEndian.Uint32(head[8:]))
		if size > p.Filesz {
			return nil
		}
		x := &frameIndex{addr: p.Vaddr, entries: make([]byte, size)}
		if im.read(x.entries, p.Vaddr+uint64(len(head))) != nil {
			return nil
		}
		return x
	}
	return nil
}

// find returns the address of the description of the function at an address.
func (x *frameIndex) find(addr uint64) (description uint64, ok bool) {
	word := func(i int) uint64 { return x.addr + uint64(int64(int32(binary.LittleEndian.Uint32(x.entries[4*i:])))) }
	i := sort.Search(len(x.entries)/8, func(i int) bool { return word(2*i) > addr }) - 1
	if i < 0 {
		return 0, false
	}
	return word(2*i + 1), true
}

// cachedRow is a result of findRow.
type cachedRow struct {
	row row
	err error
}

// maxRows limits the cache. A program is sampled at some thousands of addresses.
const maxRows = 1 << 16

// row returns the rules for a frame at an address.
func (im *Image) row(addr uint64) (row, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	c, ok := im.rows[addr]
	if !ok {
		if len(im.rows) >= maxRows {
			clear(im.rows)
		}
		c.row, c.err = im.findRow(addr)
		im.rows[addr] = c
	}
	return c.row, c.err
}

func (im *Image) findRow(addr uint64) (row, error) {
	x := im.index()
	if x == nil {
		return row{}, ErrNoInfo
	}
	at, ok := x.find(addr)
	if !ok {
		return row{}, ErrNoInfo
	}
	f, err := im.readFDE(at)
	if err != nil {
		return row{}, err
	}
	if addr < f.start || addr-f.start >= f.size {
		return row{}, ErrNoInfo
	}
	return f.row(addr)
}

// cie is a common information entry: what the descriptions of several functions share.
type cie struct {
	codeAlign    uint64
	dataAlign    int64
	returnAddr   uint64 // the register
	pointers     byte   // the encoding of addresses in the descriptions
	sized        bool   // the descriptions have augmentation data
	signal       bool   // of a signal handler's caller
	instructions []byte
}

// fde is a frame description entry: the description of a function.
type fde struct {
	cie
	arch        *arch
	start, size uint64
	own         []byte // instructions
}

// maxEntry is the maximum size of an entry. A function of a megabyte has one of some kilobytes.
const maxEntry = 1 << 20

// entry reads an entry at an address: its contents after the length, and the address of these.
func (im *Image) entry(at uint64) (*cursor, error) {
	var head [4]byte
	if err := im.read(head[:], at); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size < 4 || size > maxEntry {
		return nil, fmt.Errorf("%w: an entry of %d bytes at %#x", ErrMalformed, size, at)
	}
	b := make([]byte, size)
	if err := im.read(b, at+4); err != nil {
		return nil, err
	}
	return &cursor{b: b, addr: at + 4}, nil
}

func (im *Image) readFDE(at uint64) (*fde, error) {
	c, err := im.entry(at)
	if err != nil {
		return nil, err
	}
	back := c.u32()
	if back == 0 {
		return nil, fmt.Errorf("%w: no description at %#x", ErrMalformed, at)
	}
	f := &fde{arch: im.arch}
	if f.cie, err = im.readCIE(at + 4 - back); err != nil {
		return nil, err
	}
	f.start = c.pointer(f.pointers)
	f.size = c.pointer(f.pointers & 0x0f) // its size only
	if f.sized {
		c.skip(c.uleb())
	}
	f.own = c.b
	return f, c.err
}

func (im *Image) readCIE(at uint64) (cie, error) {
	c, err := im.entry(at)
	if err != nil {
		return cie{}, err
	}
	if id, version := c.u32(), c.u8(); id != 0 || version != 1 && version != 3 {
		return cie{}, fmt.Errorf("%w: no common information at %#x", ErrMalformed, at)
	}
	augmentation := c.text()
	info := cie{codeAlign: c.uleb(), dataAlign: c.sleb(), returnAddr: c.uleb()} // a byte in version 1: registers have small numbers
	if augmentation == "" {
		info.instructions = c.b
		return info, c.err
	}
	if augmentation[0] != 'z' {
		return cie{}, fmt.Errorf("%w: augmentation %q", errRule, augmentation)
	}
	info.sized = true
	size := c.uleb()
	if size > uint64(len(c.b)) {
		return cie{}, fmt.Errorf("%w: augmentation of %d bytes", ErrMalformed, size)
	}
	data := cursor{b: c.b[:size], addr: c.addr}
	c.skip(size)
	for _, a := range augmentation[1:] {
		switch a {
		case 'R':
			info.pointers = data.u8()
		case 'P':
			data.pointer(data.u8() & 0x0f)
		case 'L':
			data.u8()
		case 'S':
			info.signal = true
		case 'B': // return addresses are signed with the other key
		default:
			return cie{}, fmt.Errorf("%w: augmentation %q", errRule, augmentation)
		}
	}
	info.instructions = c.b
	return info, errors.Join(c.err, data.err)
}
