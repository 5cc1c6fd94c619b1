package probe

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted"
)

// langGo is DW_LANG_Go.
const langGo = 0x16

// Extract reads all that is wanted from an unstripped Go executable.
func Extract(path string) (*table.Snapshot, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	s := table.NewSnapshot()
	if err := extractDWARF(f, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := extractStrings(f, s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func extractDWARF(f *elf.File, s *table.Snapshot) error {
	d, err := f.DWARF()
	if err != nil {
		return err
	}
	r := d.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return err
		}
		if e.Tag == dwarf.TagCompileUnit {
			if lang, _ := e.Val(dwarf.AttrLanguage).(int64); lang != langGo {
				r.SkipChildren()
			}
			continue
		}
		if err := extractEntry(d, e, s); err != nil {
			return err
		}
		r.SkipChildren()
	}
}

// extractEntry notes one package-level entry if it is wanted.
func extractEntry(d *dwarf.Data, e *dwarf.Entry, s *table.Snapshot) error {
	name, _ := e.Val(dwarf.AttrName).(string)
	switch e.Tag {
	case dwarf.TagConstant:
		known, ok := wanted.Const(name)
		if v, isInt := e.Val(dwarf.AttrConstValue).(int64); ok && isInt {
			s.Consts[known] = v
		}
	case dwarf.TagStructType:
		if w, ok := wanted.StructNamed(name); ok {
			return extractStruct(d, e.Offset, w, s)
		}
	case dwarf.TagTypedef:
		// semTable is a named array.
		if w, ok := wanted.StructNamed(name); ok && w.Variable != "" {
			return extractStruct(d, e.Offset, w, s)
		}
	case dwarf.TagVariable:
		off, isRef := e.Val(dwarf.AttrType).(dwarf.Offset)
		if w, ok := wanted.StructOfVariable(name); ok && isRef {
			return extractStruct(d, off, w, s)
		}
	}
	return nil
}

func extractStruct(d *dwarf.Data, off dwarf.Offset, w wanted.Struct, s *table.Snapshot) error {
	t, err := d.Type(off)
	if err != nil {
		return err
	}
	st := table.Struct{Size: uint32(sizeOf(t)), Fields: map[string]table.Field{}}
	if t, ok := underlying(t).(*dwarf.StructType); ok {
		flatten(t, w, "", 0, st.Fields)
	}
	s.Structs[w.Name] = st
	return nil
}

// flatten adds the fields of a struct at an offset, nested ones included.
func flatten(t *dwarf.StructType, w wanted.Struct, prefix string, base int64, fields map[string]table.Field) {
	for _, f := range t.Field {
		size := sizeOf(f.Type)
		if f.Name == "_" || size == 0 {
			continue
		}
		path, at := w.Field(prefix+f.Name), base+f.ByteOffset
		fields[path] = table.Field{Offset: uint32(at), Size: uint32(size)}
		if inner, ok := underlying(f.Type).(*dwarf.StructType); ok && !w.Shallow && !wanted.IsLeaf(inner.StructName) {
			flatten(inner, w, path+".", at, fields)
		}
	}
}

func underlying(t dwarf.Type) dwarf.Type {
	for {
		td, ok := t.(*dwarf.TypedefType)
		if !ok {
			return t
		}
		t = td.Type
	}
}

// pointerSize is that of both architectures.
const pointerSize = 8

// sizeOf returns a type's size; Go's DWARF gives none for functions, which are pointers.
func sizeOf(t dwarf.Type) int64 {
	t = underlying(t)
	if _, ok := t.(*dwarf.FuncType); ok {
		return pointerSize
	}
	return t.Size()
}

// extractStrings reads the arrays of strings out of the initialised data.
func extractStrings(f *elf.File, s *table.Snapshot) error {
	symbols, err := f.Symbols()
	if err != nil {
		return err
	}
	addrs := map[string]elf.Symbol{}
	for _, sym := range symbols {
		addrs[sym.Name] = sym
	}
	for _, name := range wanted.Strings {
		sym, ok := addrs[name]
		if !ok {
			continue
		}
		const headerSize = 16
		headers, err := readAt(f, sym.Value, sym.Size)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list := []string{}
		for ; len(headers) >= headerSize; headers = headers[headerSize:] {
			text, err := readAt(f, binary.LittleEndian.Uint64(headers), binary.LittleEndian.Uint64(headers[8:]))
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", name, len(list), err)
			}
			list = append(list, string(text))
		}
		s.Strings[name] = list
	}
	return nil
}

// readAt reads initialised memory of the program.
func readAt(f *elf.File, addr, size uint64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= addr && addr+size <= p.Vaddr+p.Filesz {
			b := make([]byte, size)
			_, err := p.ReadAt(b, int64(addr-p.Vaddr))
			return b, err
		}
	}
	return nil, fmt.Errorf("no file contents at %#x", addr)
}
