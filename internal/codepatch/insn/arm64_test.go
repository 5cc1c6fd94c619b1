package insn

import "testing"

func TestArmBitmask(t *testing.T) {
	tests := []struct {
		n, immr, imms uint32
		want          uint64
		ok            bool
	}{
		{1, 0, 0, 1, true},
		{1, 63, 0, 2, true},
		{1, 0, 62, 0x7FFFFFFFFFFFFFFF, true},
		{0, 0, 0x3C, 0x5555555555555555, true},
		{0, 1, 0x3C, 0xAAAAAAAAAAAAAAAA, true},
		{0, 0, 0x27, 0x00FF00FF00FF00FF, true},
		{0, 8, 0x27, 0xFF00FF00FF00FF00, true},
		{1, 0, 63, 0, false}, // all ones cannot be encoded
		{0, 0, 63, 0, false},
	}
	for _, test := range tests {
		got, ok := armBitmask(test.n<<22 | test.immr<<16 | test.imms<<10)
		if got != test.want || ok != test.ok {
			t.Errorf("N=%d immr=%d imms=%#x: %#x, %v; want %#x, %v", test.n, test.immr, test.imms, got, ok, test.want, test.ok)
		}
	}
}
