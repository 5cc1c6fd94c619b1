package codepatch_test

import (
	"errors"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// nopFunction is a function of amd64 in which everything can be moved.
func nopFunction(entry uint64) codepatch.Function {
	return codepatch.Function{Arch: insn.AMD64, Entry: entry, Code: []byte("\x90\x90\x90\x90\x90\x90\xc3")}
}

// TestEntries checks that places at which others enter are kept free.
func TestEntries(t *testing.T) {
	f := nopFunction(0x1000)
	site := insn.Site{PC: 0x1000, Kind: insn.SiteNop}
	for entry, refused := range map[uint64]bool{0x1000: false, 0x1001: true, 0x1004: true, 0x1005: false, 0: false} {
		f.Entries = []uint64{entry}
		if _, err := codepatch.Plan(f, site); (err != nil) != refused {
			t.Errorf("entered at %#x: %v", entry, err)
		}
	}
	d, err := codepatch.Plan(nopFunction(0x1000), site)
	if err != nil {
		t.Fatal(err)
	}
	if d.Start != 0x1000 || d.End != 0x1005 {
		t.Errorf("replaces %#x to %#x", d.Start, d.End)
	}
	other, err := codepatch.Plan(nopFunction(0x1004), insn.Site{PC: 0x1004, Kind: insn.SiteNop})
	if err != nil {
		t.Fatal(err)
	}
	apart, err := codepatch.Plan(nopFunction(0x1005), insn.Site{PC: 0x1005, Kind: insn.SiteNop})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Overlaps(other) || !other.Overlaps(d) || d.Overlaps(apart) || apart.Overlaps(d) {
		t.Error("0x1000-0x1005 overlaps 0x1004-0x1009 and not 0x1005-0x100a")
	}
}

// TestReach checks that an address out of reach is refused by whoever would have to reach it, and that addresses at the ends
// of the address space do not wrap around.
func TestReach(t *testing.T) {
	body := func(uint64) []byte { return []byte{0x90} }
	for _, entry := range []uint64{0x1000, 1 << 47, ^uint64(0) - 0x1000} {
		d, err := codepatch.Plan(nopFunction(entry), insn.Site{PC: entry, Kind: insn.SiteNop})
		if err != nil {
			t.Fatal(err)
		}
		lo, hi, err := codepatch.Reach(d)
		if err != nil || lo > entry || hi < entry || hi-lo > 1<<32 {
			t.Fatalf("%#x: from %#x to %#x, %v", entry, lo, hi, err)
		}
		for _, at := range []uint64{lo, hi - uint64(d.StubLen(1))} {
			if _, err := d.Stub(at, body); err != nil {
				t.Error(err)
			}
			if _, err := d.Jump(at); err != nil {
				t.Error(err)
			}
		}
		for _, at := range []uint64{entry + 1<<31 + 64, entry - 1<<31 - 64, entry + 1<<32, entry + 1<<62} {
			_, stubErr := d.Stub(at, body)
			_, jumpErr := d.Jump(at)
			if !errors.Is(stubErr, codepatch.ErrReach) || !errors.Is(jumpErr, codepatch.ErrReach) {
				t.Errorf("%#x from %#x: stub %v, jump %v", at, entry, stubErr, jumpErr)
			}
		}
	}
	near, err := codepatch.Plan(nopFunction(0x1000), insn.Site{PC: 0x1000, Kind: insn.SiteNop})
	if err != nil {
		t.Fatal(err)
	}
	far, err := codepatch.Plan(nopFunction(1<<33), insn.Site{PC: 1 << 33, Kind: insn.SiteNop})
	if err != nil {
		t.Fatal(err)
	}
	if lo, hi, err := codepatch.Reach(near, far); !errors.Is(err, codepatch.ErrReach) {
		t.Errorf("one place for both from %#x to %#x, %v", lo, hi, err)
	}
	if _, err := codepatch.Plan(codepatch.Function{Arch: insn.AMD64, Entry: ^uint64(0) - 2, Code: make([]byte, 8)},
		insn.Site{PC: ^uint64(0) - 2}); !errors.Is(err, codepatch.ErrRefused) {
		t.Errorf("a function beyond the end of memory: %v", err)
	}
	if _, err := codepatch.Plan(codepatch.Function{Arch: "riscv64", Code: make([]byte, 8)}, insn.Site{}); !errors.Is(err, insn.ErrUnsupportedArch) {
		t.Errorf("another architecture: %v", err)
	}
}
