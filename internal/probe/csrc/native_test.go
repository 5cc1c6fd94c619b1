package csrc_test

import (
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// TestNativeLayout checks what whoever puts the code into a program relies on.
func TestNativeLayout(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		n, ok := csrc.Runtime.Native(arch)
		if !ok || len(n.Code) == 0 {
			t.Fatalf("%s: no code", arch)
		}
		if n.Settings%n.Page != 0 || n.Settings < uint64(len(n.Code)) || n.Settings >= uint64(len(n.Code))+n.Page {
			t.Errorf("%s: settings at %#x behind %#x bytes of code", arch, n.Settings, len(n.Code))
		}
		set := csrc.SetBytes(0, make([]csrc.Site, len(csrc.Runtime.Probes)), make([]uint64, len(csrc.Runtime.Settings)), nil)
		if want := uint64(unsafe.Sizeof(csrc.Settings{})) + uint64(len(set)); n.SettingsSize != want {
			t.Errorf("%s: settings have %d bytes in C, %d in Go", arch, n.SettingsSize, want)
		}
		if n.StackUse <= 0 || n.StackUse > csrc.StackUse {
			t.Errorf("%s: %d bytes of the stack used, of %d", arch, n.StackUse, csrc.StackUse)
		}
		seen := map[uint32]bool{}
		for probe, at := range n.Probes {
			if int(at) >= len(n.Code) || seen[at] {
				t.Errorf("%s: probe %d at %#x", arch, probe, at)
			}
			seen[at] = true
		}
	}
	if _, ok := csrc.Runtime.Native("riscv64"); ok {
		t.Error("code for a machine that has none")
	}
}

// TestNativeAMD64 checks that the code leaves alone what stubs do not save (vector registers), and goes only where it is
// seen to go.
func TestNativeAMD64(t *testing.T) {
	n, _ := csrc.Runtime.Native("amd64")
	for at := 0; at < len(n.Code); {
		inst, err := x86asm.Decode(n.Code[at:], 64)
		if err != nil {
			t.Fatalf("at %#x: %v", at, err)
		}
		for _, arg := range inst.Args {
			if r, ok := arg.(x86asm.Reg); ok && r >= x86asm.F0 && r <= x86asm.X15 {
				t.Errorf("at %#x: %v uses a vector register", at, inst)
			}
		}
		switch inst.Op {
		case x86asm.CALL, x86asm.JMP:
			rel, ok := inst.Args[0].(x86asm.Rel)
			if to := at + inst.Len + int(rel); !ok || to < 0 || to >= len(n.Code) {
				t.Errorf("at %#x: %v leaves the code", at, inst)
			}
		case x86asm.SYSCALL, x86asm.INT, x86asm.STD, x86asm.UD2:
			t.Errorf("at %#x: %v", at, inst)
		}
		at += inst.Len
	}
}

// TestNativeARM64 checks the same, and that X18 is not used, which belongs to the platform, nor X28, in which the runtime's
// signal handler finds the current g, whatever code a signal comes in the middle of.
func TestNativeARM64(t *testing.T) {
	n, _ := csrc.Runtime.Native("arm64")
	taken := map[string]bool{"X18": true, "W18": true, "X28": true, "W28": true}
	for at := 0; at+4 <= len(n.Code); at += 4 {
		inst, err := arm64asm.Decode(n.Code[at:])
		if err != nil {
			t.Fatalf("at %#x: %v", at, err)
		}
		switch inst.Op {
		case arm64asm.BR, arm64asm.BLR, arm64asm.SVC, arm64asm.BRK:
			t.Errorf("at %#x: %v", at, inst)
		}
		for word := range strings.FieldsFuncSeq(inst.String(), func(r rune) bool { return strings.ContainsRune(" ,[]!", r) }) {
			vector := len(word) > 1 && strings.ContainsAny(word[:1], "BHSDQV") && strings.Trim(word[1:], "0123456789") == "" && word[1] != 'S'
			if taken[word] || vector {
				t.Errorf("at %#x: %v uses %s", at, inst, word)
			}
		}
	}
}

// TestLink moves the settings to another place and back: all instructions that refer to them change, and nothing else.
func TestLink(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		n, _ := csrc.Runtime.Native(arch)
		same, _ := csrc.Runtime.Native(arch)
		if len(n.Fixups) == 0 {
			t.Fatalf("%s: no instruction refers to the settings", arch)
		}
		for _, to := range []uint64{n.Settings + 3<<12, n.Settings + 5<<20, n.Settings} {
			if err := n.Link(arch, to); err != nil || n.Settings != to {
				t.Fatalf("%s: settings at %#x: %v", arch, n.Settings, err)
			}
			changed := 0
			for at := range n.Code {
				if n.Code[at] != same.Code[at] {
					changed++
				}
			}
			if moved := to != same.Settings; moved != (changed >= len(n.Fixups)) || !moved && changed > 0 || changed > 4*len(n.Fixups) {
				t.Errorf("%s: settings at %#x: %d bytes changed, %d instructions refer to them", arch, to, changed, len(n.Fixups))
			}
		}
		if err := n.Link(arch, n.Settings+8); err == nil {
			t.Errorf("%s: settings that are not on a page boundary", arch)
		}
	}
}
