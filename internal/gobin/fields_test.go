package gobin_test

import (
	"debug/dwarf"
	"debug/elf"
	"maps"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestFieldOffsets compares offsets of fields of structs outside of the runtime with those that debug/dwarf reads.
func TestFieldOffsets(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.21.13", testtarget.Latest()) {
		path := testtarget.Build(t, testtarget.Spec{Program: "tiny", Go: version})
		bin, err := gobin.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer bin.Close()
		paths := []string{"internal/poll.FD.Sysfd", "os.file.name", "os.file.pfd.Sysfd", "internal/poll.FD.none", "none.None.none", "none"}
		got, err := bin.FieldOffsets(paths)
		if err != nil {
			t.Fatal(err)
		}
		fd, file := dwarfFields(t, path, "internal/poll.FD"), dwarfFields(t, path, "os.file")
		want := map[string]uint64{paths[0]: fd["Sysfd"], paths[1]: file["name"], paths[2]: file["pfd"] + fd["Sysfd"]}
		if !maps.Equal(got, want) {
			t.Errorf("go%s: %v, want %v", version, got, want)
		}
	}
	bin, err := gobin.Open(testtarget.Build(t, testtarget.Spec{Program: "tiny", Stripped: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer bin.Close()
	if got, err := bin.FieldOffsets([]string{"os.file.name"}); len(got) > 0 || err != nil {
		t.Errorf("of a stripped program: %v, %v", got, err)
	}
}

// dwarfFields returns the offsets of a struct's fields as debug/dwarf reads them.
func dwarfFields(t *testing.T, path, name string) map[string]uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil || e == nil {
			t.Fatalf("no struct %s: %v", name, err)
		}
		if e.Tag != dwarf.TagStructType || e.Val(dwarf.AttrName) != name {
			continue
		}
		typ, err := d.Type(e.Offset)
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]uint64{}
		for _, field := range typ.(*dwarf.StructType).Field {
			fields[field.Name] = uint64(field.ByteOffset)
		}
		return fields
	}
}
