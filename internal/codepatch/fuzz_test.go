package codepatch_test

import (
	"errors"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/codepatchtest"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// FuzzPlan plans sites in any bytes. What is accepted must do, as far as it can be read, what the original did.
func FuzzPlan(f *testing.F) {
	f.Add(false, uint8(insn.SiteStackCheck), uint16(4), "", []byte("\x49\x3b\x66\x10\x76\x0a\x55\x48\x89\xe5\x5d\xc3\x90\x90\x90\x90\xe8\xfb\x00\x00\x00\xeb\xe9"))
	f.Add(false, uint8(insn.SitePush), uint16(0), "", []byte("\x55\x48\x89\xe5\x48\x83\xec\x30\x48\x8d\x0d\x10\x00\x00\x00\xff\xe1"))
	f.Add(false, uint8(insn.SiteReturn), uint16(15), "\x04", []byte("\x31\xc0\x48\x8d\x05\x10\x00\x00\x00\x48\x83\xc4\x30\x5d\x90\xc3\xcc\xcc"))
	f.Add(false, uint8(insn.SiteReturn), uint16(5), "\x04", []byte("\x48\x83\xc4\x30\x5d\xc3\xcc\xcc"))
	f.Add(false, uint8(insn.SiteCall), uint16(0), "", []byte("\xe8\x00\x01\x00\x00\xc3"))
	f.Add(false, uint8(insn.SiteEntry), uint16(0), "", []byte("\x66\x81\x3d\x00\x01\x00\x00\x34\x12\x0f\x84\x00\x00\x00\x00\xc3"))
	f.Add(true, uint8(insn.SiteStackCheck), uint16(8), "", []byte("\x90\x0b\x40\xf9\xff\x63\x30\xeb\x69\x00\x00\x54\xfe\x0f\x1d\xf8\xc0\x03\x5f\xd6"))
	f.Add(true, uint8(insn.SiteAddress), uint16(0), "", []byte("\x83\x00\x00\x90\x63\x00\x05\x91\xc0\x03\x5f\xd6"))
	f.Add(true, uint8(insn.SiteBranch), uint16(0), "", []byte("\x41\x00\x00\xb4\x41\x00\x08\x37\x05\x00\x00\x58\xc0\x03\x5f\xd6"))
	f.Fuzz(func(t *testing.T, arm bool, kind uint8, off uint16, entries string, code []byte) {
		fn := codepatch.Function{Arch: insn.AMD64, Entry: 0x7000_0000_0000, Code: code}
		if arm {
			fn.Arch = insn.ARM64
		}
		for _, e := range []byte(entries) {
			fn.Entries = append(fn.Entries, fn.Entry+uint64(e))
		}
		site := insn.Site{PC: fn.Entry + uint64(off), Kind: insn.SiteKind(kind % 10), GReg: "R14"}
		d, err := codepatch.Plan(fn, site)
		if err != nil {
			if !errors.Is(err, codepatch.ErrRefused) {
				t.Fatal(err)
			}
			return
		}
		end := site.PC + 1
		if !arm && (site.Kind == insn.SiteReturn || site.Kind == insn.SiteStore) {
			end = min(d.End, site.PC) // what precedes it is displaced
		}
		if d.Start > site.PC || d.End < end || d.Start < fn.Entry || d.End > fn.Entry+uint64(len(code)) {
			t.Fatalf("%#x-%#x for %#x", d.Start, d.End, site.PC)
		}
		lo, hi, err := codepatch.Reach(d)
		if err != nil {
			if !errors.Is(err, codepatch.ErrReach) {
				t.Fatal(err)
			}
			return // it refers to two things that are too far apart
		}
		places := []uint64{(lo + 3) &^ 3, (hi - uint64(d.StubLen(8))) &^ 3}
		if d.Fixed != 0 {
			places = []uint64{d.Fixed}
		}
		for _, at := range places {
			codepatchtest.CheckSame(t, fn, site, d, at)
		}
	})
}
