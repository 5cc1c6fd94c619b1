package gobin

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/event"
)

// inlineFormat describes how a release stores the tree of inlined calls of a function (runtime.inlinedCall).
type inlineFormat struct {
	since            int // the first release that uses it, 1.x
	pcdata, funcdata int // table indexes
	size             int // of an entry
	funcID           int // offsets in an entry
	name, parentPC   int
	startLine        int // 0: not stored
}

var inlineFormats = []inlineFormat{
	{since: 12, pcdata: 1, funcdata: 2, size: 20, funcID: 2, name: 12, parentPC: 16},
	{since: 13, pcdata: 2, funcdata: 4, size: 20, funcID: 2, name: 12, parentPC: 16},
	{since: 16, pcdata: 2, funcdata: 3, size: 20, funcID: 2, name: 12, parentPC: 16},
	{since: 20, pcdata: 2, funcdata: 3, size: 16, funcID: 0, name: 4, parentPC: 8, startLine: 12},
}

const maxInlineDepth = 256

// inlineFormatOf returns the format of a release.
func inlineFormatOf(minor int) inlineFormat {
	f := inlineFormats[0]
	for _, next := range inlineFormats {
		if next.since <= minor {
			f = next
		}
	}
	return f
}

// Call is one logical call at an address: the function that the machine code belongs to, or one inlined into it.
type Call struct {
	event.Frame
	Inlined bool
	Wrapper bool   // made by the compiler: a method wrapper, or the closure of a go or defer statement
	Name    string // the function's full name, type arguments included

	StartLine int // line of the function's beginning; 0 when unknown
}

// Calls returns the logical calls at pc, the innermost first; the last one is the function itself. pc is an address
// inside the calling instruction: for a return address, one less than it.
func (b *Binary) Calls(f Func, pc uint64) []Call {
	var calls []Call
	t, format := b.pcln, inlineFormatOf(b.version.Minor)
	table := t.pcdata(f.rec, format.pcdata)
	tree, ok := b.funcdataAddr(f, format.funcdata)
	for table != 0 && ok && len(calls) < maxInlineDepth {
		index, _, _ := t.pcValue(table, f.Entry, pc)
		if index < 0 {
			break
		}
		entry := make([]byte, format.size)
		if b.image.readRelocated(entry, tree+uint64(index)*uint64(format.size)) != nil {
			break
		}
		name := string(t.name(binary.LittleEndian.Uint32(entry[format.name:])))
		call := b.call(f, pc, name, entry[format.funcID])
		call.Inlined = true
		if format.startLine != 0 {
			call.StartLine = int(int32(binary.LittleEndian.Uint32(entry[format.startLine:])))
		}
		calls = append(calls, call)
		// The parent's position is that of an instruction of its own, given relative to the function's entry.
		parent := f.Entry + uint64(binary.LittleEndian.Uint32(entry[format.parentPC:]))
		if parent >= f.End || parent < f.Entry {
			break
		}
		pc = parent
	}
	outer := b.call(f, pc, string(t.name(t.u32(f.rec, t.format.nameOff))), f.id)
	if t.format.startLine != 0 {
		outer.StartLine = int(int32(t.u32(f.rec, t.format.startLine)))
	} else {
		_, outer.StartLine = b.Line(f, f.Entry)
	}
	return append(calls, outer)
}

// call returns the logical call of a function at an address.
func (b *Binary) call(f Func, pc uint64, name string, id uint8) Call {
	file, line := b.Line(f, pc)
	return Call{
		Frame:   event.Frame{Func: b.shortName(name), File: file, Line: line},
		Wrapper: b.wrapperID >= 0 && int(id) == b.wrapperID,
		Name:    name,
	}
}

// funcdataAddr returns the address of a function's data of the given index.
func (b *Binary) funcdataAddr(f Func, index int) (uint64, bool) {
	v, ok := b.pcln.funcdata(f.rec, index)
	if !ok {
		return 0, false
	}
	if b.pcln.format.relative {
		if b.module.GoFunc == 0 {
			return 0, false
		}
		v += b.module.GoFunc
	}
	return v, true
}

// Wrapped returns the function that a wrapper made for a go or defer statement calls, as the compiler noted it (from Go
// 1.18, FUNCDATA_WrapInfo in internal/abi). ok is false for other functions.
func (b *Binary) Wrapped(f Func) (wrapped Func, ok bool) {
	const wrapInfo = 7
	if b.version.Minor < 18 {
		return Func{}, false
	}
	addr, ok := b.funcdataAddr(f, wrapInfo)
	if !ok {
		return Func{}, false
	}
	var offset [4]byte // from the begin of the text
	if b.image.readRelocated(offset[:], addr) != nil {
		return Func{}, false
	}
	return b.FuncForPC(b.pcln.textStart + uint64(binary.LittleEndian.Uint32(offset[:])))
}
