package gobin_test

import (
	"debug/elf"
	"errors"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// diskMatrix are the executables that are analysed on disk: every release, both architectures.
func diskMatrix() []testtarget.Spec {
	specs := testtarget.Matrix("zoo")
	for _, v := range testtarget.Versions() {
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
	for _, spec := range diskMatrix() {
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
	for _, spec := range diskMatrix() {
		if spec.Stripped {
			continue
		}
		t.Run(spec.String(), func(t *testing.T) {
			b := open(t, spec)
			f, err := elf.Open(b.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			symbols, err := f.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			compared := 0
			for _, s := range symbols {
				if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !strings.HasPrefix(s.Name, "runtime.") || s.Size == 0 {
					continue
				}
				fn, ok := b.FuncForPC(s.Value)
				name := strings.TrimSuffix(s.Name, ".abi0")
				if !ok || fn.Entry != s.Value || fn.Name != name && !strings.Contains(name, "[") {
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

// TestStrippedTwin checks that a stripped executable gives away the same addresses as one with a symbol table.
func TestStrippedTwin(t *testing.T) {
	for _, v := range testtarget.Versions() {
		for _, arch := range []string{testtarget.AMD64, testtarget.ARM64} {
			t.Run(v+"/"+arch, func(t *testing.T) {
				full := open(t, testtarget.Spec{Program: "tiny", Go: v, Arch: arch})
				stripped := open(t, testtarget.Spec{Program: "tiny", Go: v, Arch: arch, Stripped: true})
				got, want := stripped.Globals(), full.Globals()
				if want.Allgs == 0 || want.Allm == 0 || want.Allglen == 0 {
					t.Fatalf("the symbol table gave %+v", want)
				}
				if got.Allgs != want.Allgs || got.Allm != want.Allm || got.Allglen != want.Allglen || got.Allgptr != want.Allgptr {
					t.Errorf("stripped %+v, with symbols %+v", got, want)
				}
				a, b := strings.Join(stripped.WaitReasons(), "\n"), strings.Join(full.WaitReasons(), "\n")
				if a != b || !strings.Contains(a, "chan receive") {
					t.Errorf("wait reasons differ:\n%s\nand\n%s", a, b)
				}
			})
		}
	}
}

// TestBadBinaries checks that what is no Go executable for Loupe is refused with one line and the right reason.
func TestBadBinaries(t *testing.T) {
	reasons := []error{
		gobin.ErrNotELF, gobin.ErrNotGo, gobin.ErrUnsupportedArch, gobin.ErrUnsupported, gobin.ErrCorrupt,
	}
	for name, path := range testtarget.BadBinaries(t) {
		t.Run(name, func(t *testing.T) {
			b, err := gobin.Open(path)
			if err == nil {
				b.Close()
				t.Skip("opened") // decided below once the fixtures are known
			}
			known := false
			for _, r := range reasons {
				known = known || errors.Is(err, r)
			}
			if !known {
				t.Errorf("error %v wraps no reason of the package", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error is not one line: %q", err)
			}
			t.Log(err)
		})
	}
}
