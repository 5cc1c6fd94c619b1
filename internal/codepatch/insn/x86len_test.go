package insn

import (
	_ "crypto/tls" // vector code of every generation, for the length decoder
	"debug/elf"
	"encoding/hex"
	"os"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

func TestX86Length(t *testing.T) {
	tests := []struct {
		code string // hexadecimal; bytes after the instruction are there too
		want int
		name string
	}{
		{"90", 1, "nop"},
		{"6690", 2, "nop of two bytes"},
		{"660f1f840000000000", 9, "nop of nine bytes"},
		{"f30f1efa", 4, "endbr64"},
		{"55c3", 1, "push"},
		{"4155", 2, "push r13"},
		{"483b6610", 4, "cmp 0x10(rsi), rsp"},
		{"493b6610", 4, "cmp 0x10(r14), rsp"},
		{"0f8612000000", 6, "jbe near"},
		{"7605", 2, "jbe short"},
		{"64488b0c25f8ffffff", 9, "mov fs:-8, rcx"},
		{"48c7c1f8ffffff", 7, "mov -8, rcx"},
		{"48b88877665544332211", 10, "mov of eight bytes"},
		{"b878563412", 5, "mov of four bytes"},
		{"66b83412", 4, "mov of two bytes"},
		{"48a18877665544332211", 10, "mov from an absolute address"},
		{"67a178563412", 6, "mov from a short absolute address"},
		{"c6055634120001", 7, "mov of a byte, rip-relative"},
		{"66c705563412000100", 9, "mov of a word, rip-relative"},
		{"f6c101", 3, "test has an immediate"},
		{"f6d1", 2, "not has none"},
		{"f7c178563412", 6, "test of four bytes"},
		{"f7f9", 2, "idiv"},
		{"c8080000", 4, "enter"},
		{"0f0b", 2, "ud2"},
		{"f0480fc10a", 5, "lock xadd"},
		{"f3480fb8c1", 5, "popcnt"},
		{"660f38dcc1", 5, "aesenc"},
		{"660f3a0fc108", 6, "palignr"},
		{"66410f3a63c31a", 7, "pcmpistri"},
		{"c5f877", 3, "vzeroupper"},
		{"c5fe6f06", 4, "vmovdqu"},
		{"c4e27d180d78563412", 9, "vbroadcastss, rip-relative"},
		{"c4e3fd00d244", 6, "vpermq"},
		{"c4e2f3f6c1", 5, "mulx"},
		{"c5f972f31a", 5, "vpslld by a constant"},
		{"62f17c4810442401", 8, "vmovups zmm with a short displacement"},
		{"62f17c481080785634129090", 10, "vmovups zmm with a long displacement"},
		{"62f3fd4825c0ff", 7, "vpternlogq"},
		{"62f67d4898c1", 6, "vfmadd132ph, of map 6"},
		{"48c5f877", 1, "VEX after REX: invalid"},
		{"4866b83412", 5, "a REX prefix before another prefix is ignored"},
		{"8fe878c2c101", 6, "XOP with an immediate"},
		{"8f00", 2, "pop to memory is no XOP"},
		{"9a", 1, "far call: invalid"},
		{"0f", 1, "cut short"},
		{"488b", 1, "cut short before ModRM"},
		{"e8123456", 1, "cut short in the operand"},
		{"666666666666666666666666666690", 15, "as long as can be"},
		{"66666666666666666666666666666690", 1, "longer than can be"},
	}
	for _, test := range tests {
		b, err := hex.DecodeString(test.code)
		if err != nil {
			t.Fatal(err)
		}
		var x x86Inst
		x.decode(b)
		if x.len != test.want {
			t.Errorf("%s (%s): length %d, want %d", test.name, test.code, x.len, test.want)
		}
	}
}

// ownText is the code of the test itself, without a symbol table.
func ownText(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		t.Skip("this test is no amd64 executable")
	}
	text, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// x86asmKnows says whether x86asm v0.32 measures an instruction rightly: it
// takes the prefix of an unknown instruction (ADCX, ENDBR64) for one of its
// own, without a name, and reads a ModRM byte too many after VZEROUPPER.
func x86asmKnows(inst x86asm.Inst, b []byte) bool {
	return inst.Op != 0 && !(len(b) >= 3 && b[0] == 0xC5 && b[2] == 0x77)
}

// x86asmKnowsVEX says whether this version of x86asm decodes instructions with
// VEX and EVEX prefixes. Those that Go 1.23 can build do not.
func x86asmKnowsVEX() bool {
	inst, err := x86asm.Decode([]byte{0xC5, 0xF8, 0x28, 0xC1}, 64)
	return err == nil && inst.Op.String() == "VMOVAPS"
}

func TestX86LengthAgainstX86asm(t *testing.T) {
	text := ownText(t)
	var x x86Inst
	compared, vector, knowsVEX := 0, 0, x86asmKnowsVEX()
	for off := 0; off < len(text); off += x.len {
		x.decode(text[off:])
		b := text[off:min(off+x86MaxLen, len(text))]
		inst, err := x86asm.Decode(b, 64)
		if err != nil || !x86asmKnows(inst, b) || x.mode != x86Legacy && !knowsVEX {
			continue
		}
		compared++
		if x.mode != x86Legacy {
			vector++
		}
		if inst.Len != x.len {
			t.Errorf("% x: length %d, x86asm says %d: %v", b, x.len, inst.Len, inst)
		}
	}
	if compared < 500_000 || vector < 2_000 && knowsVEX {
		t.Errorf("compared %d instructions, of these %d with VEX or EVEX: too few to mean anything", compared, vector)
	}
}

// Every register that x86asm says an instruction writes is in gprWrites.
func TestX86WritesAgainstX86asm(t *testing.T) {
	text := ownText(t)
	text = text[:min(len(text), 3<<20)]
	reported := make(map[x86asm.Op]bool)
	var x x86Inst
	compared, knowsVEX := 0, x86asmKnowsVEX()
	for off := 0; off < len(text); off += x.len {
		x.decode(text[off:])
		inst, err := x86asm.Decode(text[off:min(off+x.len, len(text))], 64)
		if err != nil || !x.valid || x.mode != x86Legacy && !knowsVEX || x86ReadsFirst[inst.Op] && inst.Op != x86asm.IMUL {
			continue
		}
		r, ok := inst.Args[0].(x86asm.Reg)
		if !ok || inst.Op == x86asm.NOP || inst.Op == x86asm.IMUL && inst.Args[1] == nil || x86GPR(r) < 0 || x86GPR(r) == x86SP {
			continue
		}
		compared++
		if x.gprWrites()&(1<<x86GPR(r)) == 0 && !reported[inst.Op] {
			reported[inst.Op] = true
			t.Errorf("% x %v: writes %v, known are %#x", text[off:off+x.len], inst, r, x.gprWrites())
		}
	}
	if compared < 100_000 {
		t.Errorf("compared %d instructions: too few to mean anything", compared)
	}
}
