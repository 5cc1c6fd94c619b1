package layout

import (
	"fmt"
	"io"
	"maps"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/godwarf"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

// DWARFSource is an executable's debug information. DWARFOf makes one of an ELF file.
type DWARFSource interface {
	// Arch returns the executable's architecture as GOARCH spells it.
	Arch() string

	// Section returns a reader of a section's uncompressed contents by its plain name, ".debug_info"; nil when there is
	// no such section. The reader is read once, from its start.
	Section(name string) io.Reader
}

const (
	// maxAbbrevSection bounds .debug_abbrev. Go's own has 352 bytes, with cgo every C file adds some hundred.
	maxAbbrevSection = 16 << 20

	// maxStringSection bounds the sections of strings, which Go's own toolchain does not use.
	maxStringSection = 16 << 20
)

// FromDWARF reads the layouts out of an executable's debug information. It reads no more of it than up to the end of the
// types, which takes tens of milliseconds and some megabytes of memory for a program of 100 MB.
//
// Constants and texts are not in what is read, or not all of them; they come from the table for the release that the
// debug information names, as do structs that the program does not use. When the table does not know that release,
// structs that are not in the debug information are left out.
//
// Errors wrap ErrNoDWARF, ErrCorruptDWARF, ErrUnsupportedVersion or ErrUnsupportedArch.
func FromDWARF(f DWARFSource) (*Layout, error) {
	src, err := sectionsOf(f)
	if err != nil {
		return nil, err
	}
	found, err := godwarf.Read(src)
	if err != nil {
		return nil, err
	}
	base, err := ForVersion(found.GoVersion, f.Arch())
	if err != nil {
		return nil, err
	}
	data := table.NewSnapshot()
	data.Strings = base.data.Strings
	maps.Copy(data.Consts, base.data.Consts)
	maps.Copy(data.Consts, found.Consts)
	if base.Source == SourceTable {
		maps.Copy(data.Structs, base.data.Structs)
	}
	maps.Copy(data.Structs, found.Structs)
	return &Layout{GoVersion: found.GoVersion, Arch: base.Arch, Source: SourceDWARF, data: data}, nil
}

// Fields returns the fields of structs of any package, by their paths: the name of the struct as the linker spells it and the
// names of the fields, "net/http.Request.URL". Structs that the program does not use are left out.
//
// Errors wrap ErrNoDWARF or ErrCorruptDWARF.
func Fields(f DWARFSource, structs []string) (map[string]Field, error) {
	src, err := sectionsOf(f)
	if err != nil {
		return nil, err
	}
	found, err := godwarf.ReadStructs(src, structs)
	if err != nil {
		return nil, err
	}
	fields := map[string]Field{}
	for name, s := range found {
		for path, field := range s.Fields {
			fields[name+"."+path] = Field(field)
		}
	}
	return fields, nil
}

// StructOf returns the name of the struct in the path of a field; false if the path has none.
func StructOf(path string) (name string, ok bool) {
	name, _, ok = table.CutPath(path)
	return name, ok
}

func sectionsOf(f DWARFSource) (godwarf.Sections, error) {
	info := f.Section(".debug_info")
	if info == nil {
		return godwarf.Sections{}, fmt.Errorf("%w: no .debug_info", ErrNoDWARF)
	}
	abbrev, err := readSection(f, ".debug_abbrev", maxAbbrevSection)
	if err != nil {
		return godwarf.Sections{}, err
	}
	return godwarf.Sections{
		Info: info, Abbrev: abbrev,
		Str: lazySection(f, ".debug_str"), LineStr: lazySection(f, ".debug_line_str"),
	}, nil
}

// readSection returns the contents of a section that must be there.
func readSection(f DWARFSource, name string, limit int64) ([]byte, error) {
	r := f.Section(name)
	if r == nil {
		return nil, fmt.Errorf("%w: no %s", ErrNoDWARF, name)
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorruptDWARF, name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s of more than %d MB", ErrCorruptDWARF, name, limit>>20)
	}
	return b, nil
}

// lazySection returns a function that reads a section of strings once it is needed. Without it names are unknown, which
// ends in ErrNoDWARF.
func lazySection(f DWARFSource, name string) func() []byte {
	var b []byte
	var read bool
	return func() []byte {
		if !read {
			read = true
			b, _ = readSection(f, name, maxStringSection)
		}
		return b
	}
}
