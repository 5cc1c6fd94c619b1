package codepatch_test

import (
	"errors"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// TestVEX checks that an instruction with a VEX prefix counts as unknown: it is not moved, and the flags that are set before
// it count as needed. x86asm without AVX decodes this VMOVAPS as a SUB.
func TestVEX(t *testing.T) {
	const entry = 0x1000
	f := codepatch.Function{Arch: insn.AMD64, Entry: entry, Code: []byte("\x48\x83\xf8\x02" + // CMP $2, RAX
		"\xba\x01\x00\x00\x00" + // MOV $1, EDX
		"\xc5\xf8\x28\xc1" + // VMOVAPS XMM1, XMM0
		"\x0f\x92\xc1" + // SETB CL
		"\xc3")}
	d, err := codepatch.Plan(f, insn.Site{PC: entry + 4, Kind: insn.SiteBody})
	if err != nil {
		t.Fatal(err)
	}
	if !d.FlagsLive {
		t.Error("flags are not live before VMOVAPS and SETB")
	}
	if _, err := codepatch.Plan(f, insn.Site{PC: entry + 9, Kind: insn.SiteBody}); !errors.Is(err, codepatch.ErrRefused) {
		t.Errorf("VMOVAPS displaced: %v", err)
	}
}
