package testtarget

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestBadBinaries checks that the files are bad in the way they are meant to
// be, rather than by accident.
func TestBadBinaries(t *testing.T) {
	paths := BadBinaries(t)
	for _, name := range BadBinaryNames() {
		path, ok := paths[name]
		if !ok {
			if kind := badKinds[name]; kind.tool == "" && (!kind.rare || Complete()) {
				t.Errorf("%s is missing although it needs no tool and is not left out", name)
			}
			continue
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	goodELF := []string{"c", "c-strip", "gccgo", "tinygo", "go-386", "go-arm64", "go-s390x", "go-c-shared", "go-plugin",
		"noise-buildinfo", "noise-dwarf", "noise-pclntab", "noise-symbols", "zero-pclntab"}
	goBuilt := []string{"go-386", "go-arm64", "go-s390x", "go-darwin", "go-windows", "go-c-shared", "go-plugin",
		"noise-dwarf", "noise-pclntab", "noise-symbols", "zero-pclntab"}
	for name, path := range paths {
		if name == "fifo" || name == "sparse-2g" {
			continue // reading the one would wait for a writer, the other takes too much memory
		}
		f, err := elf.Open(path)
		if err == nil {
			f.Close()
		}
		if want := slices.Contains(goodELF, name); want != (err == nil) && name != "bad-program-headers" && name != "bad-section-sizes" {
			t.Errorf("%s: reading it as ELF gives %v, want it to succeed: %v", name, err, want)
		}
		info, err := buildinfo.ReadFile(path)
		if want := slices.Contains(goBuilt, name); want && err != nil {
			t.Errorf("%s: reading its build info: %v", name, err)
		} else if name == "noise-buildinfo" && err == nil {
			t.Errorf("%s has build info: %v", name, info)
		}
	}
}

// TestRunnableBadBinaries starts them.
func TestRunnableBadBinaries(t *testing.T) {
	if runtime.GOARCH != AMD64 {
		t.Skipf("bad binaries are for %s, this machine is %s", AMD64, runtime.GOARCH)
	}
	for name, path := range RunnableBadBinaries(t) {
		t.Run(name, func(t *testing.T) {
			p := Start(t, path)
			time.Sleep(10 * time.Millisecond)
			if !p.Running() {
				t.Error("it ended at once")
			}
		})
	}
}
