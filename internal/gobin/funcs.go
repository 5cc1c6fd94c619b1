package gobin

import (
	"bytes"
	"encoding/binary"
	"iter"
	"strings"
)

// Func is one function of the executable's machine code. Functions that were inlined everywhere have none.
type Func struct {
	Name  string // as the symbol table spells it, type arguments cut to "[...]"
	Entry uint64 // address of the first instruction
	End   uint64 // address behind the last one, padding included
	id    uint8  // the runtime's mark for special functions (internal/abi.FuncID)
	rec   []byte
}

// Functions yields all functions by rising address.
func (b *Binary) Functions() iter.Seq[Func] {
	return func(yield func(Func) bool) {
		for i := range b.pcln.nfunc {
			if f, ok := b.funcAt(i); ok && !yield(f) {
				return
			}
		}
	}
}

// FuncForPC returns the function whose code holds an address.
func (b *Binary) FuncForPC(pc uint64) (Func, bool) {
	i, ok := b.pcln.find(pc)
	if !ok {
		return Func{}, false
	}
	return b.funcAt(i)
}

// LookupFunc returns the function of a name as the symbol table spells it.
func (b *Binary) LookupFunc(name string) (Func, bool) {
	if strings.HasPrefix(name, runtimePrefix) {
		b.runtimeOnce.Do(b.indexRuntime)
		i, ok := b.runtimeFuncs[name]
		if !ok {
			return Func{}, false
		}
		return b.funcAt(i)
	}
	for i := range b.pcln.nfunc {
		if rec := b.pcln.record(i); rec != nil && string(b.pcln.name(b.pcln.u32(rec, b.pcln.format.nameOff))) == name {
			return b.funcAt(i)
		}
	}
	return Func{}, false
}

const runtimePrefix = "runtime."

// indexRuntime notes the functions of package runtime by name; they are looked up often.
func (b *Binary) indexRuntime() {
	b.runtimeFuncs = map[string]int{}
	for i := range b.pcln.nfunc {
		rec := b.pcln.record(i)
		if rec == nil {
			continue
		}
		name := b.pcln.name(b.pcln.u32(rec, b.pcln.format.nameOff))
		if !bytes.HasPrefix(name, []byte(runtimePrefix)) {
			continue
		}
		// A function that assembly code calls has a second entry of the same name, which only adapts the arguments.
		if other, twice := b.runtimeFuncs[string(name)]; !twice || b.codeSize(i) > b.codeSize(other) {
			b.runtimeFuncs[string(name)] = i
		}
	}
}

// codeSize returns how long the code of function i is, in bytes.
func (b *Binary) codeSize(i int) uint64 { return b.pcln.entry(i+1) - b.pcln.entry(i) }

// funcAt returns function i of the table; false for a record that is out of range.
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

// shortName cuts the type arguments of a generic function's name, as the runtime prints it.
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

// SPDelta returns how far the stack pointer has moved since the function's entry when execution is at pc, in bytes, the
// return address not counted; it is negative while the function has taken that off. lo and hi bound the addresses for which it holds. ok is false where the table has none.
func (b *Binary) SPDelta(f Func, pc uint64) (delta int32, lo, hi uint64, ok bool) {
	delta, lo, hi = b.pcln.pcValue(b.pcln.u32(f.rec, b.pcln.format.pcsp), f.Entry, pc)
	return delta, lo, hi, lo < hi && delta >= -returnAddress
}

// returnAddress is the size of a return address on the stack. A function may take its own off for a moment
// (syscall.rawVforkSyscall on amd64 does); then the stack pointer has moved back by so much.
const returnAddress = 8

// Line returns the source position of the code at pc, the innermost one where calls are inlined.
func (b *Binary) Line(f Func, pc uint64) (file string, line int) {
	t := b.pcln
	fileno, _, _ := t.pcValue(t.u32(f.rec, t.format.pcfile), f.Entry, pc)
	n, _, _ := t.pcValue(t.u32(f.rec, t.format.pcln), f.Entry, pc)
	return t.fileName(f.rec, fileno), max(int(n), 0)
}

// pcdata returns the offset of a function's pc-value table with the given index; 0 when there is none.
func (t *pclntab) pcdata(rec []byte, index int) uint32 {
	if index < 0 || uint32(index) >= t.u32(rec, t.format.npcdata) {
		return 0
	}
	return t.u32(rec, t.format.size+4*index)
}

// funcdata returns a function's data pointer of the given index: an offset from the module's gofunc in the formats that
// store offsets, else an address. ok is false when there is none.
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

// FrameSize returns how far a function moves the stack pointer once its prologue is done, in bytes, the return address
// not counted: the largest value in its table.
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

// CallTarget returns the function that the call before a return address calls; false when the call is indirect.
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
