package layout

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// section is one of a made ELF file.
type section struct {
	name  string
	flags elf.SectionFlag
	data  []byte
}

// elfFile returns an ELF file of sections alone.
func elfFile(machine elf.Machine, sections ...section) []byte {
	names := []byte{0}
	var body bytes.Buffer
	headerSize := binary.Size(elf.Header64{})
	headers := []elf.Section64{{}}
	add := func(s section, kind elf.SectionType) {
		headers = append(headers, elf.Section64{
			Name: uint32(len(names)), Type: uint32(kind), Flags: uint64(s.flags), Off: uint64(headerSize + body.Len()),
			Size: uint64(len(s.data)), Addralign: 1,
		})
		names = append(append(names, s.name...), 0)
		body.Write(s.data)
	}
	for _, s := range sections {
		add(s, elf.SHT_PROGBITS)
	}
	last := append(append([]byte(nil), names...), ".shstrtab\x00"...)
	add(section{name: ".shstrtab", data: last}, elf.SHT_STRTAB)
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: uint16(headerSize),
		Shoff: uint64(headerSize + body.Len()), Shentsize: uint16(binary.Size(elf.Section64{})), Shnum: uint16(len(headers)),
		Shstrndx: uint16(len(headers) - 1),
	}
	copy(h.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, h)
	out.Write(body.Bytes())
	binary.Write(&out, binary.LittleEndian, headers)
	return out.Bytes()
}

// The two forms of a compressed section.
func compressed(data []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(elf.COMPRESS_ZLIB))
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(data)))
	out = binary.LittleEndian.AppendUint64(out, 1)
	return append(out, deflated(data)...)
}

func oldCompressed(data []byte) []byte {
	out := binary.BigEndian.AppendUint64([]byte("ZLIB"), uint64(len(data)))
	return append(out, deflated(data)...)
}

func deflated(data []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	w.Write(data)
	w.Close()
	return out.Bytes()
}

// fromBytes is FromDWARF of an ELF file in memory.
func fromBytes(data []byte) (*Layout, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	d, ok := DWARFOf(f)
	if !ok {
		return nil, ErrNoDWARF
	}
	return FromDWARF(d)
}

// realSections returns .debug_info and .debug_abbrev of a small Go program.
func realSections(t *testing.T) (info, abbrev []byte) {
	t.Helper()
	f, err := elf.Open(buildProbe(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := func(name string) []byte {
		b, err := f.Section(name).Data()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return read(".debug_info"), read(".debug_abbrev")
}

func TestFromDWARFSectionForms(t *testing.T) {
	info, abbrev := realSections(t)
	want, err := fromBytes(elfFile(elf.EM_X86_64, section{".debug_info", 0, info}, section{".debug_abbrev", 0, abbrev}))
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"compressed": elfFile(elf.EM_X86_64, section{".debug_info", elf.SHF_COMPRESSED, compressed(info)},
			section{".debug_abbrev", elf.SHF_COMPRESSED, compressed(abbrev)}),
		"old form": elfFile(elf.EM_X86_64, section{".zdebug_info", 0, oldCompressed(info)},
			section{".zdebug_abbrev", 0, oldCompressed(abbrev)}),
		"old form, too small to compress": elfFile(elf.EM_X86_64, section{".zdebug_info", 0, oldCompressed(info)},
			section{".zdebug_abbrev", 0, abbrev}),
	} {
		got, err := fromBytes(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		compare(t, got, want.data)
	}
}

func TestFromDWARFErrors(t *testing.T) {
	info, abbrev := realSections(t)
	i, a := section{".debug_info", 0, info}, section{".debug_abbrev", 0, abbrev}
	zinfo, zabbrev := compressed(info), compressed(abbrev)
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"no sections":       {elfFile(elf.EM_X86_64), ErrNoDWARF},
		"no abbreviations":  {elfFile(elf.EM_X86_64, i), ErrNoDWARF},
		"no info":           {elfFile(elf.EM_X86_64, a), ErrNoDWARF},
		"empty info":        {elfFile(elf.EM_X86_64, section{name: ".debug_info"}, a), ErrNoDWARF},
		"foreign machine":   {elfFile(elf.EM_PPC64, i, a), ErrNoDWARF},
		"info cut in half":  {elfFile(elf.EM_X86_64, section{".debug_info", 0, info[:len(info)/2]}, a), ErrCorruptDWARF},
		"zlib cut in half":  {elfFile(elf.EM_X86_64, section{".debug_info", elf.SHF_COMPRESSED, zinfo[:len(zinfo)/2]}, a), ErrCorruptDWARF},
		"old zlib cut":      {elfFile(elf.EM_X86_64, section{".zdebug_info", 0, oldCompressed(info)[:5000]}, a), ErrCorruptDWARF},
		"no zlib":           {elfFile(elf.EM_X86_64, section{".zdebug_info", 0, []byte("ZLIB12345678not zlib")}, a), ErrCorruptDWARF},
		"abbreviations cut": {elfFile(elf.EM_X86_64, i, section{".debug_abbrev", elf.SHF_COMPRESSED, zabbrev[:40]}), ErrCorruptDWARF},
		"huge abbreviations": {elfFile(elf.EM_X86_64, i, section{".debug_abbrev", elf.SHF_COMPRESSED,
			compressed(make([]byte, maxAbbrevSection+1))}), ErrCorruptDWARF},
		"old Go": {elfFile(elf.EM_X86_64, section{".debug_info", 0,
			bytes.ReplaceAll(info, []byte("go1."), []byte("go0."))}, a), ErrUnsupportedVersion},
	} {
		if l, err := fromBytes(test.file); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, l, err, test.want)
		}
	}
}

// TestFromDWARFUnknownRelease reads a release that the table does not have: what is in the DWARF is there, what would
// have to be guessed is not.
func TestFromDWARFUnknownRelease(t *testing.T) {
	info, abbrev := realSections(t)
	info = bytes.ReplaceAll(info, []byte("runtime.hchan\x00"), []byte("runtime.hxxxx\x00"))
	read := func(info []byte) *Layout {
		l, err := fromBytes(elfFile(elf.EM_X86_64, section{".debug_info", 0, info}, section{".debug_abbrev", 0, abbrev}))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	known := read(info)
	if _, ok := known.Size("runtime.hchan"); !ok {
		t.Errorf("%s: runtime.hchan is not in the DWARF, but should have come from the table", known.GoVersion)
	}
	minor := "go1." + strconv.Itoa(thisRelease(t).Minor)
	unknown := read(bytes.ReplaceAll(info, []byte("cmd/compile "+minor), []byte("cmd/compile go1.99")))
	if unknown.Source != SourceDWARF || !strings.HasPrefix(unknown.GoVersion, "go1.99") {
		t.Errorf("layout of %s from %v, want go1.99 from DWARF", unknown.GoVersion, unknown.Source)
	}
	if size, ok := unknown.Size("runtime.hchan"); ok {
		t.Errorf("%s: runtime.hchan has %d bytes, but is neither in the DWARF nor known", unknown.GoVersion, size)
	}
	for _, path := range []string{"runtime.g.goid", "runtime.m.procid", "runtime.schedt.lock"} {
		a, _ := known.Field(path)
		if b, ok := unknown.Field(path); !ok || a != b {
			t.Errorf("%s: %s is %+v, want %+v", unknown.GoVersion, path, b, a)
		}
	}
	if v, ok := unknown.Const("runtime._Gwaiting"); !ok || v != 4 {
		t.Errorf("%s: _Gwaiting = %d, %v", unknown.GoVersion, v, ok)
	}
}

// TestFromDWARFCorrupted flips bytes of a real program's DWARF: whatever comes of it is a layout or a known error.
func TestFromDWARFCorrupted(t *testing.T) {
	info, abbrev := realSections(t)
	step := len(info)/150 + 1
	for at := 0; at < len(info); at += step {
		bad := bytes.Clone(info)
		bad[at] ^= 0xff
		checkOutcome(t, elfFile(elf.EM_AARCH64, section{".debug_info", 0, bad}, section{".debug_abbrev", 0, abbrev}))
	}
	for at := range abbrev {
		bad := bytes.Clone(abbrev)
		bad[at] ^= 0xff
		checkOutcome(t, elfFile(elf.EM_AARCH64, section{".debug_info", 0, info}, section{".debug_abbrev", 0, bad}))
	}
}

// checkOutcome fails unless a file gives a layout that can be or an error of this package.
func checkOutcome(t *testing.T, file []byte) {
	t.Helper()
	l, err := fromBytes(file)
	if err == nil {
		checkWithin(t, l)
		return
	}
	for _, known := range []error{ErrNoDWARF, ErrCorruptDWARF, ErrUnsupportedVersion, ErrUnsupportedArch} {
		if errors.Is(err, known) {
			return
		}
	}
	var format *elf.FormatError
	if !errors.As(err, &format) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("unexpected error %v", err)
	}
}

// FuzzFromDWARF gives whole ELF files. The committed ones hold the first units of real programs.
func FuzzFromDWARF(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "*.elf"))
	if err != nil || len(seeds) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, path := range seeds {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, file []byte) { checkOutcome(t, file) })
}
