package gobin_test

import (
	"debug/elf"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// diskMatrix are the executables that are analysed on disk, of both architectures.
func diskMatrix(t *testing.T) []testtarget.Spec {
	t.Helper()
	specs := testtarget.Matrix(t, "zoo")
	for _, v := range testtarget.Ends(t, testtarget.Versions()) {
		specs = append(specs,
			testtarget.Spec{Program: "tiny", Go: v, Arch: testtarget.ARM64},
			testtarget.Spec{Program: "tiny", Go: v, Arch: testtarget.ARM64, Stripped: true})
	}
	return specs
}

func open(t testing.TB, spec testtarget.Spec) *gobin.Binary {
	t.Helper()
	b, err := gobin.Open(testtarget.Build(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestIdentity checks what an executable says of itself.
func TestIdentity(t *testing.T) {
	for _, spec := range diskMatrix(t) {
		t.Run(spec.String(), func(t *testing.T) {
			b := open(t, spec)
			if want := "go" + spec.Go; b.GoVersion() != want {
				t.Errorf("version %q, want %q", b.GoVersion(), want)
			}
			arch := spec.Arch
			if arch == "" {
				arch = testtarget.AMD64
			}
			if b.Arch() != arch {
				t.Errorf("architecture %s, want %s", b.Arch(), arch)
			}
			symbols := gobin.SymbolsFull
			if spec.Stripped {
				symbols = gobin.SymbolsStripped
			}
			if b.Symbols() != symbols {
				t.Errorf("symbols %s, want %s", b.Symbols(), symbols)
			}
			if b.PIE() != spec.PIE || spec.PIE != (b.Linkage() == gobin.LinkPIE) {
				t.Errorf("PIE %v, linkage %s, want PIE %v", b.PIE(), b.Linkage(), spec.PIE)
			}
			if spec.Cgo && (!b.CGO() || b.Linkage() != gobin.LinkDynamic) {
				t.Errorf("cgo %v, linkage %s, want cgo and dynamic", b.CGO(), b.Linkage())
			}
			if !spec.Cgo && !spec.PIE && (b.CGO() || b.Linkage() != gobin.LinkStatic) {
				t.Errorf("cgo %v, linkage %s, want static without cgo", b.CGO(), b.Linkage())
			}
		})
	}
}

// TestFunctions compares the functions with the symbol table.
func TestFunctions(t *testing.T) {
	for _, spec := range diskMatrix(t) {
		if spec.Stripped {
			continue
		}
		t.Run(spec.String(), func(t *testing.T) {
			b := open(t, spec)
			_, symbols := symbolsOf(t, b.Path())
			compared := 0
			for _, s := range symbols {
				if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !strings.HasPrefix(s.Name, "runtime.") || s.Size == 0 {
					continue
				}
				fn, ok := b.FuncForPC(s.Value)
				name := strings.TrimSuffix(s.Name, ".abi0")
				got := strings.ReplaceAll(fn.Name, "·", ".") // the C linker's symbols have no middle dots
				if !ok || fn.Entry != s.Value || got != name && !strings.Contains(name, "[") {
					t.Errorf("at %#x: got %s at %#x, want %s", s.Value, fn.Name, fn.Entry, s.Name)
				}
				compared++
			}
			if compared < 500 {
				t.Errorf("only %d functions compared", compared)
			}
		})
	}
}

// TestGlobalsWithoutSymbols checks that an executable gives away the same addresses without its symbol table.
func TestGlobalsWithoutSymbols(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "zoo") {
		t.Run(spec.String(), func(t *testing.T) {
			full := open(t, spec)
			f, err := elf.Open(full.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			realTwin(t, full, f)
			g := full.Globals()
			if g.Memstats == 0 || g.Mheap == 0 || g.GCController == 0 || (g.Gcpercent != 0) != (full.Version().Minor < 17) {
				t.Errorf("by the symbol table: %+v", g)
			}
		})
	}
}

// TestStrippedTwin checks that an executable gives away the same addresses after its symbol table has been removed.
func TestStrippedTwin(t *testing.T) {
	for _, v := range testtarget.Versions() {
		t.Run(v, func(t *testing.T) {
			full := open(t, testtarget.Spec{Program: "tiny", Go: v})
			stripped := open(t, testtarget.Spec{Program: "tiny", Go: v, Binutils: true})
			if stripped.Symbols() != gobin.SymbolsStripped {
				t.Fatalf("symbols %s after strip", stripped.Symbols())
			}
			got, want := stripped.Globals(), full.Globals()
			if want.Allgs == 0 || want.Allm == 0 || want.Allglen == 0 {
				t.Fatalf("the symbol table gave %+v", want)
			}
			if got != want {
				t.Errorf("stripped %+v, with symbols %+v", got, want)
			}
			a, b := strings.Join(stripped.WaitReasons(), "\n"), strings.Join(full.WaitReasons(), "\n")
			if a != b || !strings.Contains(a, "chan receive") {
				t.Errorf("wait reasons differ:\n%s\nand\n%s", a, b)
			}
		})
	}
}

// badReasons says why each bad binary is refused; nil for those that are Go programs that work in spite of the damage.
var badReasons = map[string]error{
	"empty": gobin.ErrNotELF, "script": gobin.ErrNotELF, "text": gobin.ErrCorrupt, "directory": gobin.ErrNotELF,
	"fifo": gobin.ErrNotELF, "dangling-symlink": fs.ErrNotExist,
	"c": gobin.ErrNotGo, "c-strip": gobin.ErrNotGo, "gccgo": gobin.ErrUnsupported, "tinygo": gobin.ErrUnsupported,
	"go-386": gobin.ErrUnsupportedArch, "go-s390x": gobin.ErrUnsupportedArch,
	"go-darwin": gobin.ErrNotELF, "go-windows": gobin.ErrNotELF,
	"go-arm64": nil, "go-c-shared": nil, "go-plugin": nil,
	"cut-at-16": gobin.ErrCorrupt, "cut-at-64": gobin.ErrCorrupt, "cut-at-4096": gobin.ErrCorrupt,
	"cut-in-text": gobin.ErrCorrupt, "cut-in-pclntab": gobin.ErrCorrupt,
	"cut-in-dwarf": nil, "cut-last-byte": nil, "sparse-2g": nil,
	"bad-section-table": nil, "bad-section-count": nil, "bad-section-names": nil, "bad-section-sizes": nil,
	"bad-program-headers": gobin.ErrCorrupt, "noise-pclntab": gobin.ErrCorrupt, "zero-pclntab": gobin.ErrUnsupported,
	"noise-buildinfo": nil, "noise-dwarf": nil, "noise-symbols": nil, "noise-everywhere": gobin.ErrCorrupt,
}

// TestBadBinaries checks that what is no Go executable for Loupe is refused with one line and the right reason, and that
// damage to parts that a program does not need does not matter.
func TestBadBinaries(t *testing.T) {
	for name, path := range testtarget.BadBinaries(t) {
		t.Run(name, func(t *testing.T) {
			want, known := badReasons[name]
			if !known {
				t.Fatal("no expectation")
			}
			b, err := gobin.Open(path)
			if !errors.Is(err, want) {
				t.Fatalf("error %v, want one that wraps %v", err, want)
			}
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("error is not one line: %q", err)
				}
				if name == "zero-pclntab" && !strings.Contains(err.Error(), "obfuscated") {
					t.Errorf("error %q does not name the usual cause", err)
				}
				return
			}
			defer b.Close()
			if g := b.Globals(); g.Allgs == 0 || g.Allm == 0 || b.Layout() == nil || b.GoVersion() != "go"+testtarget.Latest() {
				t.Errorf("version %s, globals %+v, layout %v", b.GoVersion(), g, b.Layout())
			}
		})
	}
}
