package main

import (
	"debug/elf"
	"fmt"

	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

// compareReaders returns how package layout's own reading of a program's DWARF differs from what debug/dwarf made of it.
func compareReaders(path string, want *table.Snapshot) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	d, ok := layout.DWARFOf(f)
	if !ok {
		return fmt.Errorf("%s: layout.DWARFOf finds nothing", path)
	}
	got, err := layout.FromDWARF(d)
	if err != nil {
		return err
	}
	for name, w := range want.Consts {
		if g, ok := got.Const(name); ok && g != w {
			return fmt.Errorf("FromDWARF: %s is %d, debug/dwarf: %d", name, g, w)
		}
	}
	for name, s := range want.Structs {
		if size, _ := got.Size(name); size != uint64(s.Size) {
			return fmt.Errorf("FromDWARF: size of %s is %d, debug/dwarf: %d", name, size, s.Size)
		}
		if n := len(got.Fields(name)); n != len(s.Fields) {
			return fmt.Errorf("FromDWARF: %s has %d fields, debug/dwarf: %d", name, n, len(s.Fields))
		}
		for field, w := range s.Fields {
			if g, ok := got.Field(name + "." + field); !ok || table.Field(g) != w {
				return fmt.Errorf("FromDWARF: %s.%s is %v, debug/dwarf: %v", name, field, g, w)
			}
		}
	}
	return nil
}
