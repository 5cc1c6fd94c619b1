package native

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// open opens an image until the end of the test.
func open(t testing.TB, path string) *Image {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	im, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// libraries returns the libraries of C and C++ that this machine has.
func libraries(t testing.TB) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libcrypto.so.*", "libpython3.*.so.1.0"} {
		for _, dir := range []string{"/lib", "/usr/lib"} {
			found, _ := filepath.Glob(filepath.Join(dir, "*-linux-gnu", pattern))
			for _, path := range found {
				if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(list, real) {
					list = append(list, real)
				}
			}
		}
	}
	if len(list) == 0 {
		t.Fatal("no library of C on this machine")
	}
	return list
}

// describe writes a rule as readelf does.
func describe(r rule, cfa bool, machine elf.Machine) string {
	names := map[uint64]string{0: "rax", 1: "rdx", 2: "rcx", 3: "rbx", 4: "rsi", 5: "rdi", 6: "rbp", 7: "rsp"}
	for n := uint64(8); n < 16; n++ {
		names[n] = fmt.Sprint("r", n)
	}
	if machine == elf.EM_AARCH64 {
		for n := range uint64(31) {
			names[n] = fmt.Sprint("x", n)
		}
		names[31] = "sp"
	}
	switch r.kind {
	case unchanged, undefined:
		return "u"
	case atOffset:
		return fmt.Sprintf("c%+d", r.offset)
	case isOffset:
		return fmt.Sprintf("v%+d", r.offset)
	case register:
		if cfa {
			return fmt.Sprintf("%s%+d", names[r.reg], r.offset)
		}
		return names[r.reg]
	case isExpression:
		if cfa {
			return "exp"
		}
		return "vexp"
	}
	return "exp"
}

// callerByText returns the registers of the caller by rules as readelf prints them, if these are simple. The stack has the
// address in each word.
func callerByText(rules []string, r Registers) (caller Registers, ok bool) {
	base, offset, _ := strings.Cut(rules[0], "+")
	size, err := strconv.ParseUint(offset, 10, 64)
	if err != nil || base != "rsp" && base != "sp" || base == "rsp" && rules[2] == "u" {
		return caller, false
	}
	cfa := r.SP + size
	read := func(rule string, now uint64) uint64 {
		if back, err := strconv.ParseUint(strings.TrimPrefix(rule, "c-"), 10, 64); err == nil && cfa-back >= r.SP {
			return cfa - back
		}
		return now
	}
	return Registers{PC: read(rules[2], r.LR), SP: cfa, FP: read(rules[1], r.FP)}, true
}

// TestRows compares the rules of every row of every function of libraries with what readelf prints of them, and callers with those
// that follow from that.
func TestRows(t *testing.T) {
	for _, path := range testtarget.Ends(t, libraries(t)) {
		t.Run(filepath.Base(path), func(t *testing.T) { compareRows(t, path) })
	}
}

// TestRowsARM64 does so with the libraries of Debian's package libc6-arm64-cross.
func TestRowsARM64(t *testing.T) {
	testtarget.Whole(t, "libraries for arm64")
	for _, name := range []string{"libc.so.6", "libm.so.6"} {
		t.Run(name, func(t *testing.T) { compareRows(t, "/usr/aarch64-linux-gnu/lib/"+name) })
	}
}

func compareRows(t *testing.T, path string) {
	t.Helper()
	im := open(t, path)
	fp, ra := "rbp", "ra"
	if im.elf.Machine == elf.EM_AARCH64 {
		fp = "x29"
	}
	out, err := testcmd.Within(t, 0, "readelf", "--debug-dump=no-follow-links,frames-interp", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	rows, callers, functions, wrong, common := 0, 0, 0, 0, false
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) > 3 && f[3] == "CIE":
			common = true
		case len(f) > 3 && f[3] == "FDE":
			common = false
			functions++
		case len(f) > 1 && f[0] == "LOC":
			columns = f
		case len(f) > 1 && len(f) == len(columns) && len(f[0]) == 16:
			addr, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil || common {
				continue
			}
			rows++
			row, err := im.row(addr)
			if err == nil && row.signal {
				continue
			}
			got := []string{describe(row.cfa, true, im.elf.Machine), describe(row.fp, false, im.elf.Machine), describe(row.ra, false, im.elf.Machine)}
			want := []string{f[1], "u", "u"}
			for i, c := range columns {
				switch c {
				case fp:
					want[1] = strings.ReplaceAll(f[i], "s", "u") // the same, or unknown
				case ra:
					want[2] = strings.ReplaceAll(f[i], "s", "u")
				}
			}
			if err != nil || !slices.Equal(got, want) {
				if wrong++; wrong < 10 {
					t.Errorf("%#x: %q, %v; readelf: %q", addr, got, err, want)
				}
			}
			r := Registers{PC: addr, SP: 1 << 20, FP: 1 << 30, LR: 1 << 31}
			caller, ok := callerByText(want, r)
			if !ok || row.ra.kind == undefined { // the outermost frame
				continue
			}
			callers++
			stack := func(addr uint64) (uint64, bool) { return addr, addr >= r.SP }
			if got, _, err := im.Caller(r, stack); got != caller || err != nil {
				if wrong++; wrong < 10 {
					t.Errorf("%#x: %+v, %v; readelf: %q", addr, got, err, want)
				}
			}
		}
	}
	t.Logf("%d rows of %d functions, callers of %d", rows, functions, callers)
	if wrong > 0 || callers < 10 || functions < 10 {
		t.Errorf("%d rows of %d functions, %d wrong", rows, functions, wrong)
	}
}

// TestFollowsCall: every return address is after a call. The linker's tables do not list calls, so the code of a program with known
// calls is decoded.
func TestFollowsCall(t *testing.T) {
	for _, test := range []struct {
		arch elf.Machine
		code []byte // ends at the return address
		want bool
	}{
		{elf.EM_X86_64, []byte{0xe8, 1, 2, 3, 4}, true},                  // call rel32
		{elf.EM_X86_64, []byte{0xff, 0xd0}, true},                        // call *%rax
		{elf.EM_X86_64, []byte{0x41, 0xff, 0xd4}, true},                  // call *%r12
		{elf.EM_X86_64, []byte{0xff, 0x50, 0x18}, true},                  // call *0x18(%rax)
		{elf.EM_X86_64, []byte{0xff, 0x54, 0x24, 0x10}, true},            // call *0x10(%rsp)
		{elf.EM_X86_64, []byte{0xff, 0x15, 1, 2, 3, 4}, true},            // call *rel32(%rip)
		{elf.EM_X86_64, []byte{0xff, 0x94, 0x24, 1, 2, 0, 0}, true},      // call *0x201(%rsp)
		{elf.EM_X86_64, []byte{0xff, 0xe0}, false},                       // jmp *%rax
		{elf.EM_X86_64, []byte{0x48, 0x89, 0xe5, 0x90, 0x90}, false},     // mov, nop
		{elf.EM_AARCH64, []byte{0x10, 0, 0, 0x94}, true},                 // bl
		{elf.EM_AARCH64, []byte{0x20, 0, 0x3f, 0xd6}, true},              // blr x1
		{elf.EM_AARCH64, []byte{0x3f, 0x08, 0x3f, 0xd6}, true},           // blraaz x1
		{elf.EM_AARCH64, []byte{0x10, 0, 0, 0x14}, false},                // b
		{elf.EM_AARCH64, []byte{0xc0, 0x03, 0x5f, 0xd6}, false},          // ret
		{elf.EM_AARCH64, []byte{0x1f, 0x20, 0x03, 0xd5, 0, 0, 0}, false}, // not aligned
	} {
		code := append(make([]byte, 8), test.code...)
		if got := arches[test.arch].followsCall(code[len(code)-8:]); got != test.want {
			t.Errorf("%v, % x: %v, want %v", test.arch, test.code, got, test.want)
		}
	}
}

// TestSigned compares the decoding of numbers with examples of the DWARF standard (DWARF 5, figure 23 and 22).
func TestSigned(t *testing.T) {
	for _, test := range []struct {
		code []byte
		want int64
	}{{[]byte{2}, 2}, {[]byte{0x7e}, -2}, {[]byte{0xff, 0}, 127}, {[]byte{0x81, 0x7f}, -127}, {[]byte{0x80, 1}, 128}, {[]byte{0x80, 0x7f}, -128}, {[]byte{0x81, 1}, 129}, {[]byte{0xff, 0x7e}, -129}} {
		c := cursor{b: test.code}
		if got := c.sleb(); got != test.want || c.err != nil || len(c.b) != 0 {
			t.Errorf("% x: %d, %v, want %d", test.code, got, c.err, test.want)
		}
	}
	c := cursor{b: []byte{0xfe, 0xff, 0xff, 0xff, 0x80}}
	if a, b := c.signed(4), c.signed(1); a != -2 || b != -128 {
		t.Error(a, b)
	}
}

// TestSymbols compares the names of functions with the symbol table as package elf reads it.
func TestSymbols(t *testing.T) {
	path := libraries(t)[0]
	im := open(t, path)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, s := range list {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF || s.Size == 0 {
			continue
		}
		compared++
		for _, addr := range []uint64{s.Value, s.Value + s.Size - 1} {
			name, ok := im.Func(addr)
			if !ok {
				t.Fatalf("%#x of %s has no name", addr, s.Name)
			}
			alias := slices.ContainsFunc(list, func(o elf.Symbol) bool { return o.Name == name && o.Value <= addr && addr < o.Value+max(o.Size, 1) })
			if !alias {
				t.Fatalf("%#x of %s: %s", addr, s.Name, name)
			}
		}
	}
	if name, ok := im.Func(0); ok || compared < 100 {
		t.Errorf("%d symbols compared; at 0: %q", compared, name)
	}
	im.symbols = func() []symbol {
		return []symbol{{addr: 16, size: 8, name: "_ZN3foo3barEi"}, {addr: 32, name: "sized_by_the_next"}, {addr: 64}}
	}
	for addr, want := range map[uint64]string{15: "", 16: "foo::bar", 23: "foo::bar", 24: "", 40: "sized_by_the_next", 64: ""} {
		if got, ok := im.Func(addr); got != want || ok != (want != "") {
			t.Errorf("%d: %q, want %q", addr, got, want)
		}
	}
}

// FuzzCaller changes the call frame information of a library, and finds callers of frames with a stack of random words.
func FuzzCaller(f *testing.F) {
	path := libraries(f)[0]
	file, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	im, err := Open(bytes.NewReader(file))
	if err != nil {
		f.Fatal(err)
	}
	x := im.index()
	for i := 0; i < len(x.entries); i += len(x.entries) / 64 / 8 * 8 {
		at, _ := x.find(x.addr + uint64(int64(int32(binary.LittleEndian.Uint32(x.entries[i:])))))
		f.Add(uint32(i/8), []byte{1, 2, 3, 4}, uint16(i), at)
	}
	f.Fuzz(func(t *testing.T, function uint32, change []byte, where uint16, seed uint64) {
		i := int(function) % (len(x.entries) / 8) * 8
		start := x.addr + uint64(int64(int32(binary.LittleEndian.Uint32(x.entries[i:]))))
		at, _ := x.find(start)
		hostile := changed{file, change, int64(at) + int64(where%512)}
		im, err := Open(&hostile)
		if err != nil {
			return
		}
		word := func(addr uint64) (uint64, bool) {
			seed = seed*6364136223846793005 + 1442695040888963407
			return seed >> 8, seed%7 != 0
		}
		r := Registers{PC: start + seed%64, SP: seed &^ 7, FP: seed, LR: seed}
		if caller, _, err := im.Caller(r, word); err != nil && caller != (Registers{}) {
			t.Errorf("%+v, %v", caller, err)
		}
	})
}

// changed is a file of which some bytes are others.
type changed struct {
	file  []byte
	bytes []byte
	at    int64
}

func (c *changed) ReadAt(b []byte, off int64) (int, error) {
	n, err := bytes.NewReader(c.file).ReadAt(b, off)
	for i := range c.bytes {
		if at := c.at + int64(i) - off; at >= 0 && at < int64(n) {
			b[at] = c.bytes[i]
		}
	}
	return n, err
}

// TestMalformed opens what is no image of machine code for 64 bits.
func TestMalformed(t *testing.T) {
	for name, b := range map[string][]byte{"empty": {}, "text": []byte("#!/bin/sh\nexit 0\n"), "cut": []byte("\x7fELF\x02\x01\x01"), "32 bits": append([]byte("\x7fELF\x01\x01\x01"), make([]byte, 64)...)} {
		if _, err := Open(bytes.NewReader(b)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
