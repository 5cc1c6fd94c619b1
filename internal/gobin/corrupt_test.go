package gobin_test

import (
	"bytes"
	"debug/elf"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// victims are executables to corrupt: one of each format of the pclntab, of both kinds of linkage and architecture.
func victims(tb testing.TB) []testtarget.Spec {
	tb.Helper()
	return testtarget.SpecsAmong(tb, []testtarget.Spec{
		{Program: "tiny", Go: "1.12.17", Stripped: true},
		{Program: "tiny", Go: "1.16.15"},
		{Program: "tiny", Go: "1.18.10", Arch: testtarget.ARM64, Stripped: true},
		{Program: "tiny", Go: testtarget.Latest(), PIE: true},
	}...)
}

// image is an executable's bytes, and the places in it that are worth corrupting.
type image struct {
	bytes   []byte
	regions []region
}

type region struct {
	name     string
	off, len int
}

func load(tb testing.TB, spec testtarget.Spec) image {
	tb.Helper()
	path := testtarget.Build(tb, spec)
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		tb.Fatal(err)
	}
	im := image{bytes: raw, regions: []region{{"headers", 0, 1024}, {"tail", len(raw) - 4096, 4096}}}
	for _, s := range f.Sections {
		interesting := strings.Contains(s.Name, "gopclntab") || strings.Contains(s.Name, "buildinfo") ||
			strings.Contains(s.Name, "debug_") || strings.Contains(s.Name, "data") || s.Name == ".symtab" || s.Name == ".go.module" ||
			s.Name == ".rela" || s.Name == ".rela.dyn" || s.Name == ".dynamic"
		if interesting && s.Type != elf.SHT_NOBITS && s.FileSize > 8 {
			im.regions = append(im.regions, region{s.Name, int(s.Offset), int(s.FileSize)})
			im.regions = append(im.regions, region{s.Name + " start", int(s.Offset), int(min(s.FileSize, 128))})
		}
	}
	return im
}

// exercise uses all of a Binary that may have been opened from corrupted bytes. It must come back, with or without errors.
func exercise(tb testing.TB, raw []byte) error {
	tb.Helper()
	b, err := gobin.New(bytes.NewReader(raw), int64(len(raw)), "corrupted")
	if err != nil {
		for _, known := range []error{gobin.ErrNotELF, gobin.ErrNotGo, gobin.ErrUnsupportedArch, gobin.ErrUnsupported, gobin.ErrCorrupt} {
			if errors.Is(err, known) {
				return err
			}
		}
		tb.Fatalf("error %v wraps no reason of the package", err)
	}
	b.Layout()
	b.Globals()
	b.Setting("efence")
	b.Segments()
	b.WaitReasons()
	b.CGO()
	b.Linkage()
	n := 0
	for f := range b.Functions() {
		if n++; n > 300 {
			break
		}
		for _, pc := range []uint64{f.Entry, f.Entry + 7, f.Entry + (f.End-f.Entry)/2} {
			b.Calls(f, pc)
			b.SPDelta(f, pc)
			b.CallTarget(pc)
		}
		if size, ok := b.FrameSize(f); ok && size < 0 {
			tb.Fatalf("%s has a frame of %d bytes", f.Name, size)
		}
	}
	if f, ok := b.LookupFunc("runtime.newproc1"); ok {
		// Errors are as good as results here.
		_, _ = b.PrologueSite(f, 2)
		_, _ = b.CallSites(f)
		_, _ = b.ReturnSites(f)
	}
	return nil
}

// TestCorrupted breaks real executables in many ways. Nothing may panic, hang or take all memory.
func TestCorrupted(t *testing.T) {
	for _, spec := range victims(t) {
		t.Run(spec.String(), func(t *testing.T) {
			im := load(t, spec)
			if err := exercise(t, im.bytes); err != nil {
				t.Fatalf("the sound executable: %v", err)
			}
			refused := 0
			for i := range 40 {
				if exercise(t, im.bytes[:len(im.bytes)*i/40]) != nil {
					refused++
				}
			}
			if refused < 20 {
				t.Errorf("%d of 40 truncated executables refused", refused)
			}
			random := rand.New(rand.NewPCG(1, 2))
			for _, r := range im.regions {
				for range 6 {
					raw := bytes.Clone(im.bytes)
					for range 1 + random.IntN(16) {
						at := r.off + random.IntN(r.len)
						raw[at] = []byte{0, 0xff, 0x80, 1, byte(random.Uint32())}[random.IntN(5)]
					}
					exercise(t, raw)
				}
			}
		})
	}
}

// FuzzCorrupted lets the fuzzer choose what to break: bytes of a region are overwritten, the end is cut off.
func FuzzCorrupted(f *testing.F) {
	var images []image
	for _, spec := range victims(f) {
		images = append(images, load(f, spec))
	}
	f.Add(uint8(0), uint8(0), uint32(16), []byte{0xff}, uint32(0))
	f.Add(uint8(1), uint8(2), uint32(8), []byte{0xff, 0xff, 0xff, 0x7f}, uint32(0))
	f.Add(uint8(2), uint8(3), uint32(0), []byte{0}, uint32(4096))
	f.Add(uint8(3), uint8(4), uint32(100), []byte{0x80, 0x80, 0x80, 0x80, 0x80}, uint32(0))
	f.Fuzz(func(t *testing.T, victim, where uint8, at uint32, patch []byte, cut uint32) {
		im := images[int(victim)%len(images)]
		raw := bytes.Clone(im.bytes)
		r := im.regions[int(where)%len(im.regions)]
		copy(raw[r.off+int(at)%r.len:], patch)
		exercise(t, raw[:len(raw)-int(cut)%len(raw)])
	})
}
