package gobin

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
)

// A Func is a function in the machine code of the executable. There is no Func for a function that was inlined
// everywhere.
type Func struct {
	Name  string // as in the symbol table, with type arguments shortened to "[...]"
	Entry uint64 // address of the first instruction
	End   uint64 // address after the last instruction, including padding
	id    uint8  // the runtime's ID of special functions (internal/abi.FuncID)
	rec   []byte
}

// Flags of a function in its record, after the ID (internal/abi.FuncFlag, Go 1.17 and later).
const (
	flagsSince  = 17
	flagSPWrite = 1 << 1
)

// WritesSP reports whether a function changes the stack pointer in a way that SPDelta does not describe. A stack cannot be
// unwound beyond it. The result is false for releases before Go 1.17, which do not record it.
func (b *Binary) WritesSP(f Func) bool {
	return b.version.Minor >= flagsSince && f.rec[b.pcln.format.funcID+1]&flagSPWrite != 0
}

// Functions yields all functions in increasing order of their addresses.
func (b *Binary) Functions() iter.Seq[Func] {
	return func(yield func(Func) bool) {
		for i := range b.pcln.nfunc {
			if f, ok := b.funcAt(i); ok && !yield(f) {
				return
			}
		}
	}
}

// FuncForPC returns the function whose code contains pc.
func (b *Binary) FuncForPC(pc uint64) (Func, bool) {
	i, ok := b.pcln.find(pc)
	if !ok {
		return Func{}, false
	}
	return b.funcAt(i)
}

// LookupFunc returns the function with the given name, spelled as in the symbol table.
func (b *Binary) LookupFunc(name string) (Func, bool) {
	if strings.HasPrefix(name, runtimePrefix) {
		b.runtimeOnce.Do(b.indexRuntime)
		at, ok := slices.BinarySearchFunc(b.runtimeFuncs, []byte(name), func(i int32, name []byte) int {
			return bytes.Compare(b.funcName(int(i)), name)
		})
		if !ok {
			return Func{}, false
		}
		return b.funcAt(int(b.runtimeFuncs[at]))
	}
	for i := range b.pcln.nfunc {
		if string(b.funcName(i)) == name {
			return b.funcAt(i)
		}
	}
	return Func{}, false
}

const runtimePrefix = "runtime."

// indexRuntime indexes the functions of package runtime by name, because they are looked up often. The index is small: an agent has one for each
// process.
func (b *Binary) indexRuntime() {
	for i := range b.pcln.nfunc {
		if bytes.HasPrefix(b.funcName(i), []byte(runtimePrefix)) {
			b.runtimeFuncs = append(b.runtimeFuncs, int32(i))
		}
	}
	// A function that assembly code calls has a second entry of the same name, which only adapts the arguments.
	slices.SortFunc(b.runtimeFuncs, func(i, j int32) int {
		return cmp.Or(bytes.Compare(b.funcName(int(i)), b.funcName(int(j))), -cmp.Compare(b.codeSize(int(i)), b.codeSize(int(j))), cmp.Compare(i, j))
	})
	b.runtimeFuncs = slices.Clip(slices.CompactFunc(b.runtimeFuncs, func(i, j int32) bool { return bytes.Equal(b.funcName(int(i)), b.funcName(int(j))) }))
}

// funcName returns the full name of function i of the table, or nil if its record is out of range.
func (b *Binary) funcName(i int) []byte {
	rec := b.pcln.record(i)
	if rec == nil {
		return nil
	}
	return b.pcln.name(b.pcln.u32(rec, b.pcln.format.nameOff))
}

// codeSize returns the size of the code of function i in bytes.
func (b *Binary) codeSize(i int) uint64 { return b.pcln.entry(i+1) - b.pcln.entry(i) }

// funcAt returns function i of the table. The result is false if its record is out of range.
func (b *Binary) funcAt(i int) (Func, bool) {
	t := b.pcln
	rec := t.record(i)
	if rec == nil {
		return Func{}, false
	}
	return Func{
		Name:  b.shortName(string(t.name(t.u32(rec, t.format.nameOff)))),
		Entry: t.entry(i), End: t.entry(i + 1),
		id: rec[t.format.funcID], rec: rec,
	}, true
}

// firstGenericMinor is the first release with generic functions.
const firstGenericMinor = 18

// shortName shortens the type arguments in the name of a generic function, as the runtime does when it prints a name.
func (b *Binary) shortName(name string) string {
	i := strings.IndexByte(name, '[')
	if i < 0 || b.version.Minor < firstGenericMinor {
		return name
	}
	j := strings.LastIndexByte(name, ']')
	if j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// Code returns the machine code of a function.
func (b *Binary) Code(f Func) ([]byte, error) {
	if f.End <= f.Entry || f.End-f.Entry > maxCode {
		return nil, b.errorf("%w: function %s spans %#x-%#x", ErrCorrupt, f.Name, f.Entry, f.End)
	}
	code := make([]byte, f.End-f.Entry)
	return code, b.image.read(code, f.Entry)
}

const maxCode = 64 << 20

// SPDelta returns the number of bytes by which the stack pointer at pc is below its value at the function's entry. It
// is negative if the function has popped its return address. The value applies to the addresses from lo up to hi. ok is
// false if the table has no value for pc.
func (b *Binary) SPDelta(f Func, pc uint64) (delta int32, lo, hi uint64, ok bool) {
	delta, lo, hi = b.pcln.pcValue(b.pcln.u32(f.rec, b.pcln.format.pcsp), f.Entry, pc)
	return delta, lo, hi, lo < hi && delta >= -returnAddress
}

// returnAddress is the size of a return address on the stack. A function may pop its own for a moment, as
// syscall.rawVforkSyscall on amd64 does. The stack pointer has then moved back by this size.
const returnAddress = 8

// Line returns the source position of the code at pc. In an inlined call it is the position in the innermost function.
func (b *Binary) Line(f Func, pc uint64) (file string, line int) {
	t := b.pcln
	fileno, _, _ := t.pcValue(t.u32(f.rec, t.format.pcfile), f.Entry, pc)
	n, _, _ := t.pcValue(t.u32(f.rec, t.format.pcln), f.Entry, pc)
	return t.fileName(f.rec, fileno), max(int(n), 0)
}

// pcdata returns the offset of a function's pc-value table with the given index, or 0 if there is none.
func (t *pclntab) pcdata(rec []byte, index int) uint32 {
	if index < 0 || uint32(index) >= t.u32(rec, t.format.npcdata) {
		return 0
	}
	return t.u32(rec, t.format.size+4*index)
}

// funcdata returns a function's data pointer of the given index: an offset from the module's gofunc in formats that
// store offsets, otherwise an address. ok is false if there is none.
func (t *pclntab) funcdata(rec []byte, index int) (value uint64, ok bool) {
	if index < 0 || index >= int(rec[t.format.nfuncdata]) {
		return 0, false
	}
	npcdata := t.u32(rec, t.format.npcdata)
	if npcdata > 1<<10 {
		return 0, false
	}
	off := t.format.size + 4*int(npcdata)
	if t.format.relative {
		v := t.u32(rec, off+4*index)
		return uint64(v), v != noTableFile && off+4*index+4 <= len(rec)
	}
	// The pointers are aligned to 8 bytes in memory; rec is a tail of data.
	base := int(t.addr&7) + len(t.data) - len(rec)
	off = (base+off+7)&^7 - base + 8*index
	if off > len(rec)-8 {
		return 0, false
	}
	v := binary.LittleEndian.Uint64(rec[off:])
	return v, v != 0
}

// FrameSize returns the size of a function's stack frame in bytes, without the return address: the largest value of
// SPDelta.
func (b *Binary) FrameSize(f Func) (int32, bool) {
	largest, found := int32(0), false
	for pc := f.Entry; pc < f.End; {
		delta, _, hi, ok := b.SPDelta(f, pc)
		if !ok || hi <= pc {
			break
		}
		largest, found, pc = max(largest, delta), true, hi
	}
	return largest, found
}

// CallTarget returns the address of the function that is called by the instruction before the return address ret. The
// result is false if the call is indirect.
func (b *Binary) CallTarget(ret uint64) (uint64, bool) {
	if b.arch == "arm64" {
		var raw [4]byte
		if ret < 4 || b.image.read(raw[:], ret-4) != nil {
			return 0, false
		}
		insn := binary.LittleEndian.Uint32(raw[:])
		const opBL = 0b100101
		return ret - 4 + uint64(int64(int32(insn<<6)>>6)*4), insn>>26 == opBL
	}
	var raw [5]byte
	const opCall, callLen = 0xe8, 5
	if ret < callLen || b.image.read(raw[:], ret-callLen) != nil {
		return 0, false
	}
	return ret + uint64(int64(int32(binary.LittleEndian.Uint32(raw[1:])))), raw[0] == opCall
}
