package testtarget

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Architectures a Spec can name.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// A Spec says which executable is wanted. Specs are comparable.
type Spec struct {
	// Program is a directory below testdata/src, such as zoo or tiny.
	Program string
	// Go is the release that builds it, such as "1.12.17"; any release that
	// GOTOOLCHAIN can name, not only those of Versions. Empty: Latest.
	Go string
	// Arch is the GOARCH. Empty: the machine's own.
	Arch string
	// Stripped leaves out the symbol table and DWARF (-ldflags=-s -w).
	Stripped bool
	// PIE builds a position-independent executable (-buildmode=pie).
	PIE bool
	// Cgo links C code: the program's own where it has some (zoo), and the
	// C halves of net and os/user. Without it CGO_ENABLED is 0, except where
	// a release can make a PIE only by the C linker.
	Cgo bool
	// Trimpath removes file system paths (-trimpath; from Go 1.13).
	Trimpath bool
	// Binutils runs binutils' strip over the finished executable, as
	// distributions do. Unlike Stripped it leaves the Go linker's notes.
	Binutils bool
	// Tags are further build tags, separated by commas.
	Tags string
	// Flags are further arguments of go build, one on each line.
	Flags string
	// Module is a module that a directory of the program stands for, as "example.com/parcel v1.2.3 ./parcel1".
	Module string
	// Experiment is the GOEXPERIMENT, and AMD64Level the GOAMD64 such as "v3".
	Experiment, AMD64Level string
	// Library makes the program a shared library (-buildmode=c-shared), and
	// the executable a program of C that loads it and calls its function
	// <program>Main, which needs Cgo to be there (mixer).
	Library bool
	// Archive makes the program an archive (-buildmode=c-archive), and the
	// executable a program of C that is linked with it and calls its function
	// <program>Main, which needs Cgo to be there (mixer).
	Archive bool
	// Plugin adds the program's plugin (-buildmode=plugin), plugged.so beside
	// the executable, which loads it on command. It implies Cgo; mixer has one.
	Plugin bool
}

// String returns a name that is unique among specs and fit for a subtest:
// "zoo/go1.12.17/amd64/stripped+pie".
func (s Spec) String() string {
	s = s.withDefaults()
	var shape []string
	for _, f := range []struct {
		on   bool
		name string
	}{
		{s.Stripped, "stripped"}, {s.PIE, "pie"}, {s.Cgo, "cgo"},
		{s.Trimpath, "trimpath"}, {s.Binutils, "binutils"}, {s.Library, "library"}, {s.Archive, "archive"}, {s.Plugin, "plugin"}, {s.Tags != "", "tags=" + s.Tags},
		{s.Flags != "", strings.NewReplacer("\n", "+", " ", "", "/", "").Replace(s.Flags)},
		{s.Module != "", strings.NewReplacer(" ", "-", "/", "").Replace(s.Module)}, {s.Experiment != "", "experiment=" + s.Experiment}, {s.AMD64Level != "", "amd64=" + s.AMD64Level},
	} {
		if f.on {
			shape = append(shape, f.name)
		}
	}
	if len(shape) == 0 {
		shape = []string{"normal"}
	}
	return fmt.Sprintf("%s/go%s/%s/%s", s.Program, s.Go, s.Arch, strings.Join(shape, "+"))
}

// Matrix returns the specs of one program for every release of Versions on the
// machine's architecture: normal, stripped, PIE and cgo, in that order. Unless
// LOUPE_RELEASES chooses all releases, the newest release alone has all four,
// and the others are stripped and normal in turn. The test logs what it leaves
// out.
func Matrix(tb testing.TB, program string) []Spec {
	tb.Helper()
	versions := Versions()
	var specs []Spec
	for _, v := range versions {
		specs = append(specs,
			Spec{Program: program, Go: v},
			Spec{Program: program, Go: v, Stripped: true},
			Spec{Program: program, Go: v, PIE: true},
			Spec{Program: program, Go: v, Cgo: true})
	}
	return among(tb, specs, func(s Spec) bool {
		i := slices.Index(versions, s.Go)
		return Complete() || i == len(versions)-1 || !s.PIE && !s.Cgo && s.Stripped == (i%2 == 0)
	})
}

// Unsupported returns what the machine lacks to build s, naming the Debian
// package that has it, or "" when nothing is missing.
func (s Spec) Unsupported() string {
	s = s.withDefaults()
	if s.needsC() {
		cc, ok := cCompiler(s.Arch)
		if !ok {
			return fmt.Sprintf("%s: no C compiler for %s is known", s, s.Arch)
		}
		if _, err := exec.LookPath(cc.command); err != nil {
			return fmt.Sprintf("%s needs %s (Debian package %s)", s, cc.command, cc.debian)
		}
	}
	if s.Binutils {
		if _, err := exec.LookPath("strip"); err != nil {
			return fmt.Sprintf("%s needs strip (Debian package binutils)", s)
		}
	}
	return ""
}

// A compiler is a command and the Debian package that has it.
type compiler struct{ command, debian string }

// cCompiler returns the C compiler for an architecture.
func cCompiler(arch string) (cc compiler, ok bool) {
	if arch == runtime.GOARCH {
		return compiler{"gcc", "gcc"}, true
	}
	cc, ok = map[string]compiler{
		AMD64: {"x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu"},
		ARM64: {"aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"},
	}[arch]
	return cc, ok
}

// The first minor releases with features that a build depends on.
const (
	minorTrimpath    = 13 // go build -trimpath
	minorInternalPIE = 15 // a PIE without the C linker, on amd64 and arm64
	minorBuildVCS    = 18 // go build -buildvcs
)

// needsC says whether the build runs a C compiler or linker.
func (s Spec) needsC() bool {
	return s.Cgo || s.PIE && s.minor() < minorInternalPIE
}

// minor returns 12 for "1.12.17" and "1.12rc1", and -1 for what is no release.
func (s Spec) minor() int {
	rest, ok := strings.CutPrefix(s.Go, "1.")
	if !ok {
		return -1
	}
	digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	n, err := strconv.Atoi(rest[:digits])
	if err != nil {
		return -1
	}
	return n
}

// withDefaults fills in what empty fields stand for.
func (s Spec) withDefaults() Spec {
	if s.Go == "" {
		s.Go = Latest()
	}
	if s.Arch == "" {
		s.Arch = runtime.GOARCH
	}
	s.Cgo = s.Cgo || s.Library || s.Archive || s.Plugin
	return s
}
