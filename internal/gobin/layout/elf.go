package layout

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"io"
	"strings"
)

// DWARFOf returns the debug information of an ELF file; false when it has none or is not for an architecture that Loupe
// knows. The file must stay open while FromDWARF reads.
func DWARFOf(f *elf.File) (DWARFSource, bool) {
	d := elfDWARF{file: f}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || d.Arch() == "" {
		return nil, false
	}
	return d, d.find(".debug_info") != nil
}

type elfDWARF struct{ file *elf.File }

func (d elfDWARF) Arch() string {
	switch d.file.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return ""
}

// oldPrefix begins the names of sections that are compressed the way GNU tools did before ELF had a flag for it; Go used
// it before 1.19.
const oldPrefix = ".z"

// find returns the section of a plain name, the old compressed form included.
func (d elfDWARF) find(name string) *elf.Section {
	for _, s := range d.file.Sections {
		if (s.Name == name || s.Name == oldPrefix+name[1:]) && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

func (d elfDWARF) Section(name string) io.Reader {
	s := d.find(name)
	if s == nil {
		return nil
	}
	if strings.HasPrefix(s.Name, oldPrefix) && s.Flags&elf.SHF_COMPRESSED == 0 {
		return &oldZlib{raw: io.NewSectionReader(s, 0, int64(s.FileSize))}
	}
	return s.Open() // decompresses as it reads
}

// oldZlib reads the old compressed form: "ZLIB", the size in eight bytes, a zlib stream. Without the mark the contents
// are not compressed.
type oldZlib struct {
	raw *io.SectionReader
	r   io.Reader
}

func (z *oldZlib) Read(p []byte) (int, error) {
	if z.r == nil {
		const mark, headerSize = "ZLIB", 12
		var header [headerSize]byte
		if _, err := z.raw.ReadAt(header[:], 0); err != nil || !bytes.HasPrefix(header[:], []byte(mark)) {
			z.r = z.raw
		} else if r, err := zlib.NewReader(io.NewSectionReader(z.raw, headerSize, z.raw.Size()-headerSize)); err != nil {
			return 0, err
		} else {
			z.r = r
		}
	}
	return z.r.Read(p)
}
