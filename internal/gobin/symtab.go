package gobin

import (
	"debug/elf"
	"encoding/binary"
)

// symbols returns the entries with the given names in the ELF symbol table. Missing names are omitted. It reads the
// table in one pass and does not keep it, because tables of large executables have hundreds of thousands of entries.
func (im *image) symbols(names map[string]bool) map[string]symbol {
	found := map[string]symbol{}
	im.eachSymbol(func(name []byte, s symbol) bool {
		if names[string(name)] {
			found[string(name)] = s
		}
		return len(found) < len(names)
	})
	return found
}

// symbol is an entry of the symbol table.
type symbol struct{ addr, size uint64 }

// maxSymtab is the maximum size of a table. The table of a 100 MB executable has about 10 MB.
const maxSymtab = 256 << 20

// eachSymbol calls fn for the objects and functions of the symbol table until it returns false.
func (im *image) eachSymbol(fn func(name []byte, s symbol) bool) {
	table := im.elf.SectionByType(elf.SHT_SYMTAB)
	if table == nil || int(table.Link) >= len(im.elf.Sections) || table.Size > maxSymtab {
		return
	}
	strs := im.elf.Sections[table.Link]
	if strs.Size > maxSymtab {
		return
	}
	syms, errSyms := table.Data()
	text, errText := strs.Data()
	if errSyms != nil || errText != nil {
		return // treated like a missing symbol table
	}
	for ; len(syms) >= elf.Sym64Size; syms = syms[elf.Sym64Size:] {
		kind := elf.ST_TYPE(syms[4])
		if kind != elf.STT_OBJECT && kind != elf.STT_NOTYPE && kind != elf.STT_FUNC {
			continue
		}
		name := cstring(text, uint64(binary.LittleEndian.Uint32(syms)))
		if !fn(name, symbol{binary.LittleEndian.Uint64(syms[8:]), binary.LittleEndian.Uint64(syms[16:])}) {
			return
		}
	}
}
