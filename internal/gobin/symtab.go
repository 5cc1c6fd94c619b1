package gobin

import (
	"debug/elf"
	"encoding/binary"
)

// symbols returns the addresses of the given names in the ELF symbol table; names that it lacks are left out. It reads
// the table in one pass and keeps nothing of it: tables of large executables have hundreds of thousands of entries.
func (im *image) symbols(names map[string]bool) map[string]uint64 {
	found := map[string]uint64{}
	table := im.elf.SectionByType(elf.SHT_SYMTAB)
	if table == nil || int(table.Link) >= len(im.elf.Sections) || table.Size > uint64(im.size) {
		return found
	}
	strs := im.elf.Sections[table.Link]
	if strs.Size > uint64(im.size) {
		return found
	}
	syms, err := table.Data()
	if err != nil {
		return found
	}
	text, err := strs.Data()
	if err != nil {
		return found
	}
	for ; len(syms) >= elf.Sym64Size; syms = syms[elf.Sym64Size:] {
		kind := elf.ST_TYPE(syms[4])
		if kind != elf.STT_OBJECT && kind != elf.STT_NOTYPE && kind != elf.STT_FUNC {
			continue
		}
		name := cstring(text, uint64(binary.LittleEndian.Uint32(syms)))
		if names[string(name)] {
			found[string(name)] = binary.LittleEndian.Uint64(syms[8:])
		}
	}
	return found
}
