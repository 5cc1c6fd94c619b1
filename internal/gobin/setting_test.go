package gobin_test

import (
	"debug/dwarf"
	"debug/elf"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestSetting compares the addresses of settings with those of the fields of runtime.debug, which debug/dwarf reads.
func TestSetting(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "zoo") {
		t.Run(spec.String(), func(t *testing.T) {
			b := open(t, spec)
			want := settings(t, b.Path())
			for name, since := range map[string]int{"efence": 12, "gctrace": 12, "harddecommit": 18} {
				if at, ok := b.Setting(name); ok != (b.Version().Minor >= since) || at != want[name] {
					t.Errorf("%s at %#x, %t, want %#x", name, at, ok, want[name])
				}
			}
			if at, ok := b.Setting("none"); ok {
				t.Errorf("a setting that does not exist is at %#x", at)
			}
		})
	}
}

// settings returns the addresses of the fields of runtime.debug.
func settings(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	f, symbols := symbolsOf(t, path)
	addrs := map[string]uint64{}
	for _, s := range symbols {
		if s.Name == "runtime.debug" {
			for _, field := range typeOf(t, f, s.Name).Field {
				addrs[field.Name] = s.Value + uint64(field.ByteOffset)
			}
		}
	}
	return addrs
}

// typeOf returns the struct type of a variable.
func typeOf(t *testing.T, f *elf.File, name string) *dwarf.StructType {
	t.Helper()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			t.Fatalf("no variable %s: %v", name, err)
		}
		if e.Tag != dwarf.TagVariable || e.Val(dwarf.AttrName) != name {
			continue
		}
		typ, err := d.Type(e.Val(dwarf.AttrType).(dwarf.Offset))
		if err != nil {
			t.Fatal(err)
		}
		return typ.(*dwarf.StructType)
	}
}
