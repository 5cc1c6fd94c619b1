package gobin

import (
	"bytes"
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// findPclntab locates the pclntab by its section, or if there is none, by its magic number in the loadable segments.
func (im *image) findPclntab() (*pclntab, error) {
	if addr, size, ok := im.sectionAddr(".gopclntab", ".data.rel.ro.gopclntab"); ok {
		return im.readPclntab(addr, size)
	}
	var firstErr error
	for _, s := range im.segs {
		for _, addr := range im.findMagic(s) {
			t, err := im.readPclntab(addr, s.addr+s.filesz-addr)
			if err == nil && im.plausible(t) {
				return t, nil
			}
			if firstErr == nil {
				firstErr = err
			}
		}
	}
	if firstErr != nil {
		return nil, firstErr
	}
	return nil, im.whyNotGo()
}

func (im *image) readPclntab(addr, size uint64) (*pclntab, error) {
	s, ok := im.segmentOf(addr)
	if !ok || addr-s.addr >= s.filesz {
		return nil, fmt.Errorf("%w: pclntab at %#x is outside of the file", ErrCorrupt, addr)
	}
	if size > s.filesz-(addr-s.addr) {
		return nil, fmt.Errorf("%w: the file ends within the pclntab", ErrCorrupt)
	}
	if size > maxPclntab {
		return nil, fmt.Errorf("%w: pclntab of %d bytes", ErrCorrupt, size)
	}
	data := make([]byte, size)
	if err := im.readRelocated(data, addr); err != nil {
		return nil, err
	}
	t, err := parsePclntab(addr, share(data))
	if err != nil {
		return nil, err
	}
	if !t.format.relative && !im.plausible(t) {
		return nil, fmt.Errorf("%w: the functions of the pclntab are outside of the code", ErrCorrupt)
	}
	return t, nil
}

// plausible reports whether the functions of the table are in increasing order and in executable memory.
func (im *image) plausible(t *pclntab) bool {
	for i := range t.nfunc {
		if t.entry(i) > t.entry(i+1) {
			return false
		}
	}
	if t.format.relative && t.textStart == 0 {
		return true
	}
	s, ok := im.segmentOf(t.entry(0))
	return ok && s.exec
}

// findMagic returns the addresses in a segment where a pclntab could start.
func (im *image) findMagic(s segment) []uint64 {
	var found []uint64
	buf := make([]byte, 1<<20)
	for off := uint64(0); off < s.filesz; off += uint64(len(buf)) {
		chunk := buf[:min(uint64(len(buf)), s.filesz-off)]
		if im.read(chunk, s.addr+off) != nil {
			break
		}
		for i := 0; i+8 <= len(chunk); i += 8 {
			if chunk[i+7] == 8 && chunk[i+3] == 0xff && pclnMagic(chunk[i:]) != nil {
				found = append(found, s.addr+off+uint64(i))
			}
		}
	}
	return found
}

// whyNotGo returns an error for an executable without a pclntab, with the reason if it can be determined.
func (im *image) whyNotGo() error {
	if im.cut {
		return fmt.Errorf("%w: the file is truncated", ErrCorrupt)
	}
	if im.gccgo() {
		return fmt.Errorf("%w: built by gccgo, which has a different runtime", ErrUnsupported)
	}
	if im.tinygo() {
		return fmt.Errorf("%w: built by TinyGo, which has a different runtime", ErrUnsupported)
	}
	if im.packed() {
		return fmt.Errorf("%w: packed by UPX; unpack it, or use the PID of the running process", ErrUnsupported)
	}
	return fmt.Errorf("%w: no pclntab found", ErrNotGo)
}

// gccgo reports whether an executable was built by GCC's Go compiler: it has its export data, or uses its runtime library.
func (im *image) gccgo() bool {
	if s := im.elf.Section(".go_export"); s != nil {
		return true
	}
	for _, name := range []string{".dynamic", ".dynstr"} {
		if s := im.elf.Section(name); s == nil || s.Size > maxSymtab {
			return false
		}
	}
	libs, err := im.elf.ImportedLibraries()
	return err == nil && slices.ContainsFunc(libs, func(lib string) bool { return strings.HasPrefix(lib, "libgo.so") })
}

// tinygo reports whether an executable was built by TinyGo, whose name is in its .comment section.
func (im *image) tinygo() bool {
	s := im.elf.Section(".comment")
	if s == nil || s.Size > maxComment {
		return false
	}
	b, err := s.Data()
	return err == nil && bytes.Contains(b, []byte("TinyGo"))
}

const maxComment = 64 << 10

// packed reports whether UPX has compressed the executable.
func (im *image) packed() bool {
	for _, s := range im.segs {
		b := make([]byte, min(4096, s.filesz))
		if im.read(b, s.addr) != nil {
			continue
		}
		for i := 0; i+4 <= len(b); i++ {
			if string(b[i:i+4]) == "UPX!" {
				return true
			}
		}
	}
	return false
}

// A Linkage is the way in which an executable is linked.
type Linkage string

// The kinds of linkage.
const (
	LinkStatic  Linkage = "static"  // loaded at a fixed address, without shared libraries
	LinkDynamic Linkage = "dynamic" // loaded at a fixed address, with shared libraries
	LinkPIE     Linkage = "pie"     // position-independent, with or without shared libraries
)

// Linkage returns how the executable is linked.
func (b *Binary) Linkage() Linkage {
	if b.PIE() {
		return LinkPIE
	}
	for _, p := range b.image.elf.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return LinkDynamic
		}
	}
	return LinkStatic
}

// Symbols is the amount of symbol and debug information in an executable.
type Symbols string

// The levels of symbol information.
const (
	SymbolsFull     Symbols = "full"     // symbol table and DWARF
	SymbolsNoDWARF  Symbols = "nodwarf"  // symbol table only
	SymbolsStripped Symbols = "stripped" // neither
)

// Symbols returns the amount of symbol information in the executable.
func (b *Binary) Symbols() Symbols {
	f := b.image.elf
	switch {
	case f.SectionByType(elf.SHT_SYMTAB) == nil:
		return SymbolsStripped
	case f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil:
		return SymbolsNoDWARF
	}
	return SymbolsFull
}

// CGO reports whether the executable contains C code linked with cgo, which is recognized by the function crosscall2 of
// package runtime/cgo.
func (b *Binary) CGO() bool {
	_, ok := b.LookupFunc("crosscall2")
	return ok
}
