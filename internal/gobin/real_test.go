package gobin_test

import (
	"debug/buildinfo"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/realtarget"
)

// TestRealPrograms opens executables that were not built for Loupe, and holds what it finds in them against the standard
// library's readers and what their builders say.
func TestRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			path := spec.Path(t)
			b, err := gobin.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			f, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			t.Run("identity", func(t *testing.T) { realIdentity(t, b, f, spec) })
			t.Run("functions", func(t *testing.T) { realFunctions(t, b, f) })
			t.Run("globals", func(t *testing.T) { realGlobals(t, b) })
			if b.Symbols() != gobin.SymbolsStripped {
				t.Run("twin", func(t *testing.T) { realTwin(t, b, f) })
			}
		})
	}
}

// realIdentity checks what an executable says of itself.
func realIdentity(t *testing.T, b *gobin.Binary, f *elf.File, spec realtarget.Spec) {
	info, err := buildinfo.ReadFile(b.Path())
	if err != nil {
		t.Fatal(err)
	}
	if b.GoVersion() != info.GoVersion {
		t.Errorf("version %q, want %q", b.GoVersion(), info.GoVersion)
	}
	if got := b.BuildInfo(); got == nil || got.String() != info.String() {
		t.Errorf("build information\n%v\nwant\n%v", got, info)
	}
	if m, ok := spec.Source.(realtarget.Module); ok {
		if b.GoVersion() != "go"+m.Go || info.Path != m.Package() || info.Main.Path != m.Path {
			t.Errorf("%s, package %s of module %s: want a %s", b.GoVersion(), info.Path, info.Main.Path, m)
		}
	}
	symbols := gobin.SymbolsStripped
	if f.Section(".symtab") != nil {
		symbols = gobin.SymbolsNoDWARF
		if slices.ContainsFunc(f.Sections, isDWARF) {
			symbols = gobin.SymbolsFull
		}
	}
	if b.Symbols() != symbols {
		t.Errorf("symbols %s, want %s", b.Symbols(), symbols)
	}
	linkage := gobin.LinkStatic
	switch {
	case f.Type == elf.ET_DYN:
		linkage = gobin.LinkPIE
	case slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }):
		linkage = gobin.LinkDynamic
	}
	if b.Linkage() != linkage {
		t.Errorf("linkage %s, want %s", b.Linkage(), linkage)
	}
	if cgo := linkage != gobin.LinkStatic; b.CGO() != cgo {
		t.Errorf("cgo %v in an executable that is %s", b.CGO(), linkage)
	}
}

func isDWARF(s *elf.Section) bool {
	return strings.HasPrefix(s.Name, ".debug_") || strings.HasPrefix(s.Name, ".zdebug_")
}

// realFunctions compares all functions, and the lines at the start and in the middle of each, with what package debug/gosym reads from the
// same table.
func realFunctions(t *testing.T, b *gobin.Binary, f *elf.File) {
	section, text := f.Section(".gopclntab"), f.Section(".text")
	if section == nil || text == nil {
		t.Fatal("no section .gopclntab or .text")
	}
	data, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	// With C code linked in, Go's text does not begin where the section does.
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, b.Module().Text))
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(b.Functions())
	if len(got) != len(table.Funcs) || len(got) < 5000 {
		t.Errorf("%d functions, want %d and a real program's number", len(got), len(table.Funcs))
	}
	bad := 0
	for i, fn := range got[:min(len(got), len(table.Funcs))] {
		want := &table.Funcs[i]
		name := want.Name
		if b.Version().Minor >= 18 {
			name = short(name)
		}
		if fn.Name != name || fn.Entry != want.Entry {
			t.Errorf("got %s at %#x, want %s at %#x", fn.Name, fn.Entry, want.Name, want.Entry)
			bad++
		}
		for _, pc := range []uint64{fn.Entry, fn.Entry + (fn.End-fn.Entry)/2} {
			file, line := b.Line(fn, pc)
			wantFile, wantLine, _ := table.PCToLine(pc)
			if file != wantFile || line != max(wantLine, 0) {
				t.Errorf("%s at %#x is in %s:%d, want %s:%d", fn.Name, pc, file, line, wantFile, wantLine)
				bad++
			}
			if wantLine < 0 {
				break // a marker of the linker's, without lines
			}
		}
		if again, ok := b.FuncForPC(fn.End - 1); !ok || again.Entry != fn.Entry {
			t.Errorf("the last byte of %s is in %s", fn.Name, again.Name)
			bad++
		}
		if bad > 10 {
			t.Fatal("and so on")
		}
	}
	for _, name := range []string{"main.main", "runtime.gopark", "runtime.newproc1", "net/http.(*conn).serve"} {
		if fn, ok := b.LookupFunc(name); !ok || fn.Name != name {
			t.Errorf("%s is not found", name)
		}
	}
}

// short cuts the type arguments in a function's name, as a traceback of today's Go does.
func short(name string) string {
	start, end := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if start < 0 || end < start {
		return name
	}
	return name[:start] + "[...]" + name[end+1:]
}

// realGlobals checks that the runtime's variables that every snapshot needs are found.
func realGlobals(t *testing.T, b *gobin.Binary) {
	g := b.Globals()
	if g.Allgs == 0 || g.Allglen == 0 || g.Allm == 0 || g.Allp == 0 || g.Sched == 0 {
		t.Errorf("the runtime's variables are at %+v", g)
	}
	if b.Version().Minor >= 16 && g.Allgptr == 0 {
		t.Errorf("no allgptr: %+v", g)
	}
	for _, reason := range []string{"chan receive", "select", "IO wait"} {
		if !slices.Contains(b.WaitReasons(), reason) {
			t.Errorf("%q is not among the wait reasons %q", reason, b.WaitReasons())
		}
	}
}

// realTwin checks that the executable without its symbol table and debug information gives away the same.
func realTwin(t *testing.T, b *gobin.Binary, f *elf.File) {
	file, err := os.Open(b.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	twin, err := gobin.New(withoutSymbols(t, file, f), stat.Size(), b.Path())
	if err != nil {
		t.Fatal(err)
	}
	if twin.Symbols() != gobin.SymbolsStripped {
		t.Fatalf("the twin has symbols: %s", twin.Symbols())
	}
	got, want := twin.Globals(), b.Globals()
	if want.WaitReasons == 0 {
		got.WaitReasons = 0
	}
	if got != want {
		t.Errorf("globals\n%+v, by the symbol table\n%+v", got, want)
	}
	if !slices.Equal(twin.WaitReasons(), b.WaitReasons()) {
		t.Errorf("wait reasons\n%q, by the symbol table\n%q", twin.WaitReasons(), b.WaitReasons())
	}
	for _, name := range []string{"runtime.g", "runtime.m"} {
		compared := 0
		for _, path := range twin.Layout().Fields(name) {
			inTable, _ := twin.Layout().Field(path)
			if own, ok := b.Layout().Field(path); ok {
				compared++
				if inTable != own {
					t.Errorf("%s: %+v, by the executable with symbols %+v", path, inTable, own)
				}
			}
		}
		if compared < 5 {
			t.Errorf("%d fields of %s compared", compared, name)
		}
	}
}

// patched is a file some of whose bytes are replaced.
type patched struct {
	io.ReaderAt
	at    int64
	bytes []byte
}

// ReadAt implements io.ReaderAt.
func (p patched) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, off)
	for i := range b[:n] {
		if at := off + int64(i) - p.at; at >= 0 && at < int64(len(p.bytes)) {
			b[i] = p.bytes[at]
		}
	}
	return n, err
}

// withoutSymbols returns an executable's bytes with the symbol table and debug information taken out of its list of
// sections.
func withoutSymbols(t *testing.T, file io.ReaderAt, f *elf.File) io.ReaderAt {
	t.Helper()
	// Elf64_Ehdr and Elf64_Shdr, in the ELF specification.
	const sectionsAt, sectionSize, typeAt = 40, 64, 4
	var head [64]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		t.Fatal(err)
	}
	start := int64(binary.LittleEndian.Uint64(head[sectionsAt:]))
	list := make([]byte, len(f.Sections)*sectionSize)
	if _, err := file.ReadAt(list, start); err != nil {
		t.Fatal(err)
	}
	for i, s := range f.Sections {
		if s.Type == elf.SHT_SYMTAB || isDWARF(s) {
			binary.LittleEndian.PutUint32(list[i*sectionSize+typeAt:], uint32(elf.SHT_NULL))
		}
	}
	return patched{ReaderAt: file, at: start, bytes: list}
}
