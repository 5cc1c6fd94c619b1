package native

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"
	"sort"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// symbol is a function in the symbol table.
type symbol struct {
	addr, size uint64
	binding    elf.SymBind
	name       string
}

// maxTable is the maximum size of a table in a file. The symbol table of a 100 MB executable has about 10 MB.
const maxTable = 256 << 20

// readSymbols reads the functions of the symbol table, or, in a stripped file, those of the table of the dynamic linker.
func (im *Image) readSymbols() []symbol {
	list := im.readTable(elf.SHT_SYMTAB)
	if len(list) == 0 {
		list = im.readTable(elf.SHT_DYNSYM)
	}
	slices.SortFunc(list, func(a, b symbol) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(underscores(a.name), underscores(b.name)),
			-cmp.Compare(a.binding, b.binding), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	return slices.CompactFunc(list, func(a, b symbol) bool { return a.addr == b.addr }) // aliases
}

// underscores returns the number of underscores at the start of a name: "write" is also "__write" and "__libc_write".
func underscores(name string) int { return len(name) - len(strings.TrimLeft(name, "_")) }

func (im *Image) readTable(kind elf.SectionType) []symbol {
	table := im.elf.SectionByType(kind)
	if table == nil || int(table.Link) >= len(im.elf.Sections) || table.Size > maxTable || im.elf.Sections[table.Link].Size > maxTable {
		return nil
	}
	syms, errSyms := table.Data()
	text, errText := im.elf.Sections[table.Link].Data()
	if errSyms != nil || errText != nil {
		return nil
	}
	var list []symbol
	for ; len(syms) >= elf.Sym64Size; syms = syms[elf.Sym64Size:] {
		kind := elf.ST_TYPE(syms[4])
		if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || elf.SectionIndex(binary.LittleEndian.Uint16(syms[6:])) == elf.SHN_UNDEF {
			continue
		}
		at := uint64(binary.LittleEndian.Uint32(syms))
		if at >= uint64(len(text)) {
			continue
		}
		name, _, _ := strings.Cut(string(text[at:min(at+maxName, uint64(len(text)))]), "\x00")
		list = append(list, symbol{binary.LittleEndian.Uint64(syms[8:]), binary.LittleEndian.Uint64(syms[16:]), elf.ST_BIND(syms[4]), name})
	}
	return list
}

// maxName is the maximum length of a name. Mangled names of C++ templates have thousands of bytes.
const maxName = 4096

// Func returns the name of the function at an address, demangled if it is one of C++, Rust or D. ok is false if the symbol table has
// none there.
func (im *Image) Func(addr uint64) (name string, ok bool) {
	list := im.symbols()
	i := sort.Search(len(list), func(i int) bool { return list[i].addr > addr }) - 1
	if i < 0 || list[i].name == "" {
		return "", false
	}
	if s := &list[i]; addr-s.addr >= s.size && s.size > 0 { // without a size it extends to the next one
		return "", false
	}
	return demangle.Filter(list[i].name, demangle.NoParams, demangle.MaxLength(10)), true
}
