package goproc

import (
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
)

// TestBreakpoints recognises breakpoints at instructions, and nothing else that differs.
func TestBreakpoints(t *testing.T) {
	for _, c := range []struct {
		name, arch      string
		file, code, now string // code is file where it is empty
		want            []Breakpoint
	}{
		{"none", insn.AMD64, "\x55\x48\x89\xe5\xc3", "", "\x55\x48\x89\xe5\xc3", nil},
		{"entry and return", insn.AMD64, "\x55\x48\x89\xe5\xc3", "", "\xcc\x48\x89\xe5\xcc", []Breakpoint{{"f", 0}, {"f", 4}}},
		{"inside an instruction", insn.AMD64, "\x55\x48\x89\xe5\xc3", "", "\x55\x48\xcc\xe5\xc3", nil},
		{"of the file", insn.AMD64, "\x90\xcc\xc3", "", "\x90\xcc\xcc", []Breakpoint{{"f", 2}}},
		{"other code", insn.AMD64, "\x55\x48\x89\xe5\xc3", "", "\xe9\x01\x02\x03\x04", nil},
		{"padding of a jump", insn.AMD64, "\x48\x89\xe5\x48\x83\xec\x60\xc3", "\x48\xe9\x01\x02\x03\x04\xcc\xc3", "\x48\xe9\x01\x02\x03\x04\xcc\xc3", nil},
		{"on a jump", insn.AMD64, "\x48\x89\xe5\x48\x83\xec\x60\xc3", "\x48\xe9\x01\x02\x03\x04\xcc\xc3", "\xcc\xe9\x01\x02\x03\x04\xcc\xc3", []Breakpoint{{"f", 0}}},
		{"arm64", insn.ARM64, "\x1f\x20\x03\xd5\xc0\x03\x5f\xd6", "", "\x1f\x20\x03\xd5\xa0\x00\x20\xd4", []Breakpoint{{"f", 4}}},
		{"other code of arm64", insn.ARM64, "\x1f\x20\x03\xd5\xc0\x03\x5f\xd6", "", "\x1f\x20\x03\xd5\x00\x00\x00\x14", nil},
	} {
		code := c.code
		if code == "" {
			code = c.file
		}
		got := appendBreakpoints(nil, c.arch, gobin.Func{Name: "f", Entry: 0x1000}, []byte(c.file), []byte(code), []byte(c.now))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
