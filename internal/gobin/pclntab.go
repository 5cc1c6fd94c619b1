package gobin

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// pclnFormat describes one layout of the pclntab, the table by which the runtime finds functions, stack frame sizes and
// source lines (runtime/symtab.go, cmd/link/internal/ld/pcln.go). Offsets are of the _func record and of the header.
type pclnFormat struct {
	magic     uint32
	oldest    int  // the first supported release that writes it, 1.x
	relative  bool // function entries are 32-bit offsets from the text start, not addresses
	header    bool // the header has the offsets of the sub-tables; otherwise all offsets are relative to the table
	textStart bool // the header has a field for the text start (zero since Go 1.26)

	nameOff, pcsp, pcfile, pcln, npcdata int
	cuOffset                             int // 0: file numbers are indices of one table for all functions
	startLine                            int // 0: not stored
	funcID, nfuncdata, size              int
}

// pclnFormats lists all formats since Go 1.2. Go 1.26 and later write the last one with a text start of zero.
var pclnFormats = []pclnFormat{
	{magic: 0xfffffffb, oldest: 12, // Go 1.2 to 1.15
		nameOff: 8, pcsp: 20, pcfile: 24, pcln: 28, npcdata: 32, funcID: 36, nfuncdata: 39, size: 40},
	{magic: 0xfffffffa, oldest: 16, header: true, // Go 1.16 and 1.17
		nameOff: 8, pcsp: 20, pcfile: 24, pcln: 28, npcdata: 32, cuOffset: 36, funcID: 40, nfuncdata: 43, size: 44},
	{magic: 0xfffffff0, oldest: 18, header: true, relative: true, textStart: true, // Go 1.18 and 1.19
		nameOff: 4, pcsp: 16, pcfile: 20, pcln: 24, npcdata: 28, cuOffset: 32, funcID: 36, nfuncdata: 39, size: 40},
	{magic: 0xfffffff1, oldest: 20, header: true, relative: true, textStart: true, // Go 1.20 and later
		nameOff: 4, pcsp: 16, pcfile: 20, pcln: 24, npcdata: 28, cuOffset: 32, startLine: 36, funcID: 40, nfuncdata: 43, size: 44},
}

const (
	maxFuncs    = 8 << 20
	maxNameLen  = 64 << 10
	maxPclntab  = 512 << 20 // a hundred times the number in a usual executable
	noTableFile = ^uint32(0)
)

// pclntab is the parsed table. Its slices alias data.
type pclntab struct {
	addr      uint64
	format    *pclnFormat
	quantum   uint64
	data      []byte
	nfunc     int
	textStart uint64 // from the header, or from the module data if the header has none
	ftab      []byte
	names     []byte
	cu        []byte
	files     []byte
	pctab     []byte
	funcs     []byte
}

// pclnMagic returns the format of a table that starts with b, or nil if b is not the start of a table.
func pclnMagic(b []byte) *pclnFormat {
	if len(b) < 8 || b[4] != 0 || b[5] != 0 || b[7] != 8 || (b[6] != 1 && b[6] != 4) {
		return nil
	}
	magic := binary.LittleEndian.Uint32(b)
	for i := range pclnFormats {
		if pclnFormats[i].magic == magic {
			return &pclnFormats[i]
		}
	}
	return nil
}

// parsePclntab reads the header of the table at addr. data may extend beyond the end of the table.
func parsePclntab(addr uint64, data []byte) (*pclntab, error) {
	f := pclnMagic(data)
	if f == nil {
		return nil, fmt.Errorf("%w: unknown pclntab format % x: the program is obfuscated (by garble, for example), or built by a newer Go release",
			ErrUnsupported, data[:min(len(data), 8)])
	}
	t := &pclntab{addr: addr, format: f, quantum: uint64(data[6]), data: data}
	word := func(i int) uint64 {
		if len(data) < 16+8*i {
			return 0
		}
		return binary.LittleEndian.Uint64(data[8+8*i:])
	}
	nfunc := word(0)
	if nfunc == 0 || nfunc > maxFuncs {
		return nil, fmt.Errorf("%w: pclntab with %d functions", ErrCorrupt, nfunc)
	}
	t.nfunc = int(nfunc)
	if !f.header {
		t.ftab, t.names, t.pctab, t.funcs = data[16:], data, data, data
	} else if err := t.parseHeader(word); err != nil {
		return nil, err
	}
	need := t.nfunc*t.entrySize() + t.entrySize()/2
	if len(t.ftab) < need {
		return nil, fmt.Errorf("%w: pclntab ends within its %d functions", ErrCorrupt, t.nfunc)
	}
	if !f.header {
		if t.files = t.sub(uint64(t.u32(t.ftab, need))); t.files == nil {
			return nil, fmt.Errorf("%w: pclntab file table out of range", ErrCorrupt)
		}
	}
	t.ftab = t.ftab[:need]
	return t, nil
}

// parseHeader sets the sub-tables of formats whose header has their offsets.
func (t *pclntab) parseHeader(word func(int) uint64) error {
	next := 2
	if t.format.textStart {
		t.textStart = word(2)
		next = 3
	}
	for i, table := range []*[]byte{&t.names, &t.cu, &t.files, &t.pctab, &t.funcs} {
		if *table = t.sub(word(next + i)); *table == nil {
			return fmt.Errorf("%w: pclntab sub-table %d out of range", ErrCorrupt, i)
		}
	}
	t.ftab = t.funcs
	return nil
}

func (t *pclntab) sub(off uint64) []byte {
	if off >= uint64(len(t.data)) {
		return nil
	}
	return t.data[off:]
}

// u32 reads a little-endian word. It returns 0 outside of b.
func (t *pclntab) u32(b []byte, off int) uint32 {
	if off < 0 || off > len(b)-4 {
		return 0
	}
	return binary.LittleEndian.Uint32(b[off:])
}

// entrySize is the size of a function table entry: the entry's address or offset, and the record's offset.
func (t *pclntab) entrySize() int {
	if t.format.relative {
		return 8
	}
	return 16
}

// entry returns the address of function i. If i is nfunc, it returns the end of the last function.
func (t *pclntab) entry(i int) uint64 {
	if t.format.relative {
		return t.textStart + uint64(binary.LittleEndian.Uint32(t.ftab[i*8:]))
	}
	return binary.LittleEndian.Uint64(t.ftab[i*16:])
}

// record returns the _func record of function i and the data after it, or nil if it is out of range.
func (t *pclntab) record(i int) []byte {
	var off uint64
	if t.format.relative {
		off = uint64(binary.LittleEndian.Uint32(t.ftab[i*8+4:]))
	} else {
		off = binary.LittleEndian.Uint64(t.ftab[i*16+8:])
	}
	if off > uint64(len(t.funcs)) || uint64(len(t.funcs))-off < uint64(t.format.size) {
		return nil
	}
	return t.funcs[off:]
}

// find returns the index of the function that contains pc.
func (t *pclntab) find(pc uint64) (int, bool) {
	if pc < t.entry(0) || pc >= t.entry(t.nfunc) {
		return 0, false
	}
	lo, hi := 0, t.nfunc // entry(lo) <= pc < entry(hi)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) / 2)
		if t.entry(mid) <= pc {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo, true
}

// name returns the string at an offset of the name table without copying it.
func (t *pclntab) name(off uint32) []byte { return cstring(t.names, uint64(off)) }

// cstring returns the zero-terminated string at an offset, or nil if it is out of range or has no end.
func cstring(b []byte, off uint64) []byte {
	if off >= uint64(len(b)) {
		return nil
	}
	b = b[off:]
	n := bytes.IndexByte(b[:min(len(b), maxNameLen)], 0)
	if n < 0 {
		return nil
	}
	return b[:n]
}

// fileName returns the source file of a pcfile value of a function.
func (t *pclntab) fileName(rec []byte, fileno int32) string {
	if fileno < 0 {
		return ""
	}
	if t.format.cuOffset == 0 {
		if fileno == 0 {
			return ""
		}
		return string(cstring(t.data, uint64(t.u32(t.files, int(fileno)*4))))
	}
	index := uint64(t.u32(rec, t.format.cuOffset)) + uint64(fileno)
	if index >= uint64(len(t.cu)/4) {
		return ""
	}
	off := t.u32(t.cu, int(index*4))
	if off == noTableFile {
		return ""
	}
	return string(cstring(t.files, uint64(off)))
}

// pcValue decodes the pc-value table at an offset of pctab and returns the value at pc and the range of addresses that
// have it. The value is -1 if the table does not cover pc.
func (t *pclntab) pcValue(off uint32, entry, pc uint64) (value int32, lo, hi uint64) {
	value, lo = -1, entry
	if off == 0 || uint64(off) >= uint64(len(t.pctab)) {
		return -1, entry, entry
	}
	p := t.pctab[off:]
	at := entry
	for first := true; ; first = false {
		delta, rest, ok := uvarint32(p)
		if !ok || delta == 0 && !first {
			return -1, lo, lo
		}
		if delta&1 != 0 {
			value += int32(^(delta >> 1))
		} else {
			value += int32(delta >> 1)
		}
		step, rest, ok := uvarint32(rest)
		if !ok {
			return -1, lo, lo
		}
		lo, at, p = at, at+uint64(step)*t.quantum, rest
		if pc < at {
			return value, lo, at
		}
	}
}

// uvarint32 decodes an unsigned LEB128 number of at most 32 bits.
func uvarint32(b []byte) (v uint32, rest []byte, ok bool) {
	for shift := uint(0); shift < 35; shift += 7 {
		if len(b) == 0 {
			return 0, nil, false
		}
		c := b[0]
		b = b[1:]
		v |= uint32(c&0x7f) << (shift & 31)
		if c < 0x80 {
			return v, b, true
		}
	}
	return 0, nil, false
}
