package insn

import "testing"

// TestInstructions checks what somebody who moves code needs to know of each instruction.
func TestInstructions(t *testing.T) {
	const entry = 0x400000
	for _, test := range []struct {
		arch, code string
		want       Instruction
	}{
		{AMD64, "\x55", Instruction{Len: 1, Valid: true, SPMoved: 8, SPKnown: true}},
		{AMD64, "\x48\x83\xec\x30", Instruction{Len: 4, Valid: true, SPMoved: 0x30, SPKnown: true}},
		{AMD64, "\x48\x83\xe4\xf0", Instruction{Len: 4, Valid: true}},
		{AMD64, "\x48\x8b\x0d\x00\x01\x00\x00", Instruction{Len: 7, Valid: true, SPKnown: true, PCRelField: 3, PCRelAddr: entry + 0x107}},
		{AMD64, "\x66\x81\x3d\xf0\xff\xff\xff\x34\x12", Instruction{Len: 9, Valid: true, SPKnown: true, PCRelField: 3, PCRelAddr: entry - 7}},
		{AMD64, "\x76\x10", Instruction{Len: 2, Flow: FlowCond, Target: entry + 0x12, Valid: true, SPKnown: true}},
		{AMD64, "\xe8\xfb\xff\xff\xff", Instruction{Len: 5, Flow: FlowCall, Target: entry, Valid: true, SPKnown: true}},
		{AMD64, "\xff\x25\x00\x01\x00\x00", Instruction{Len: 6, Flow: FlowIndirect, Valid: true, SPKnown: true, PCRelField: 2, PCRelAddr: entry + 0x106}},
		{AMD64, "\xc7\xf8\x10\x00\x00\x00", Instruction{Len: 6, Flow: FlowCond, Target: entry + 0x16, Valid: true, SPKnown: true}},
		{AMD64, "\x66\x0f\x84\x00\x00\x00\x00", Instruction{Len: 7, Flow: FlowCond, Target: entry + 7, SPKnown: true}},
		{AMD64, "\x06", Instruction{Len: 1}},
		{AMD64, "\xc5\xf8\x28\xc1", Instruction{Len: 4, Valid: true, SPKnown: true, VEX: true}},
		{AMD64, "\x62\xf1\x7c\x48\x11\x05\x00\x01\x00\x00", Instruction{Len: 10, Valid: true, SPKnown: true, VEX: true, PCRelField: 6, PCRelAddr: entry + 0x10a}},
		{ARM64, "\xfe\x0f\x1d\xf8", Instruction{Len: 4, Valid: true, SPMoved: 48, SPKnown: true}},
		{ARM64, "\x69\x00\x00\x54", Instruction{Len: 4, Flow: FlowCond, Target: entry + 12, Valid: true, SPKnown: true}},
		{ARM64, "\xc0\x03\x5f\xd6", Instruction{Len: 4, Flow: FlowReturn, Valid: true, SPKnown: true}},
	} {
		test.want.PC = entry
		list, err := Instructions(Code{Arch: test.arch, Entry: entry, Bytes: []byte(test.code)})
		if err != nil || len(list) != 1 || list[0] != test.want {
			t.Errorf("%s % x: %+v, %v, want %+v", test.arch, test.code, list, err, test.want)
		}
	}
	if _, err := Instructions(Code{Arch: "wasm", Bytes: []byte{0}}); err == nil {
		t.Error("no error for another architecture")
	}
}
