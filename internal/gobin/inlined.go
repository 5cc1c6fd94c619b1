package gobin

import (
	"encoding/binary"
	"slices"
	"strings"
)

// flagAssembler is set for functions that are written in assembler (internal/abi.FuncFlagAsm, Go 1.17 and later).
const flagAssembler = 1 << 2

// Assembler reports whether a function is written in assembler. The result is false for releases before Go 1.17, which do not
// record it.
func (b *Binary) Assembler(f Func) bool {
	return b.version.Minor >= flagsSince && f.rec[b.pcln.format.funcID+1]&flagAssembler != 0
}

// Wrapper reports whether the compiler has generated a function: a method wrapper, a method value, or the closure of a go or defer
// statement.
func (b *Binary) Wrapper(f Func) bool {
	return b.wrapperID >= 0 && int(f.id) == b.wrapperID
}

// maxInlined bounds the calls that are inlined into one function.
const maxInlined = 1 << 14

// Inlined returns the functions that have calls of other functions inlined, by the short names of these, which match selects.
func (b *Binary) Inlined(match func(name string) bool) map[string][]string {
	t, format := b.pcln, inlineFormatOf(b.version.Minor)
	selected := map[uint32]string{} // by the offset of the name; empty: not selected
	found := map[string][]string{}
	var room []byte
	for f := range b.Functions() {
		tree, ok := b.funcdataAddr(f, format.funcdata)
		last := t.largest(t.pcdata(f.rec, format.pcdata))
		if !ok || last < 0 || last >= maxInlined {
			continue
		}
		room = slices.Grow(room[:0], (int(last)+1)*format.size)
		entries := room[:(int(last)+1)*format.size]
		if b.image.readRelocated(entries, tree) != nil {
			continue
		}
		for ; len(entries) > 0; entries = entries[format.size:] {
			off := binary.LittleEndian.Uint32(entries[format.name:])
			name, known := selected[off]
			if !known {
				if name = b.shortName(strings.Clone(string(t.name(off)))); !match(name) {
					name = ""
				}
				selected[off] = name
			}
			if name != "" && !slices.Contains(found[name], f.Name) {
				found[name] = append(found[name], f.Name)
			}
		}
	}
	return found
}

// largest returns the largest value of the pc-value table at an offset of pctab; -1 if there is none.
func (t *pclntab) largest(off uint32) int32 {
	most, value := int32(-1), int32(-1)
	if off == 0 || uint64(off) >= uint64(len(t.pctab)) {
		return most
	}
	p := t.pctab[off:]
	for first := true; ; first = false {
		delta, rest, ok := uvarint32(p)
		if !ok || delta == 0 && !first {
			return most
		}
		if delta&1 != 0 {
			value += int32(^(delta >> 1))
		} else {
			value += int32(delta >> 1)
		}
		most = max(most, value)
		if _, p, ok = uvarint32(rest); !ok {
			return most
		}
	}
}

// ArgsSize returns the size in bytes of the area that a function's callers provide: parameters and results that are on the stack, and
// room to which the function can save parameters that are in registers. ok is false if the size is unknown.
func (b *Binary) ArgsSize(f Func) (size int, ok bool) {
	const unknown = 1 << 31 // internal/abi.ArgsSizeUnknown
	n := b.pcln.u32(f.rec, b.pcln.format.nameOff+4)
	return int(n), n != unknown
}
