package insn

import (
	"slices"
	"testing"
)

// fuzzCode makes a function of any bytes, for one of the architectures.
func fuzzCode(arm bool, entry uint64, b []byte) Code {
	c := Code{Arch: AMD64, Entry: entry, Bytes: b}
	if arm {
		c.Arch = ARM64
	}
	return c
}

// fuzzSeeds adds prologues and bodies of real functions.
func fuzzSeeds(f *testing.F) {
	for _, arch := range []string{AMD64, ARM64} {
		f.Add(arch == ARM64, uint64(testEntry), []byte{})
	}
	f.Add(false, uint64(testEntry), []byte("\x49\x3b\x66\x10\x76\x05\x55\x48\x89\xe5\xc3\xe8\xfb\x00\x00\x00\xeb\xee"))
	f.Add(false, uint64(testEntry), []byte("\x48\x8d\x05\x00\x01\x00\x00\x48\x8b\x14\xc8\xf0\x48\x0f\xc1\x08\xc3"))
	f.Add(false, ^uint64(0)-8, []byte("\x0f\x86\x00\x00\x00\x80\xe9\xff\xff\xff\x7f\xc5\xf8\x77\x62\xf1\x7c\x48\x11\x05\x00\x01\x00\x00"))
	f.Add(true, uint64(testEntry), []byte("\x90\x0b\x40\xf9\xff\x63\x30\xeb\x69\x00\x00\x54\xfe\x0f\x1d\xf8\xc0\x03\x5f\xd6\xe3\x03\x1e\xaa\x40\x00\x00\x94\xf9\xff\xff\x17"))
	f.Add(true, uint64(testEntry), []byte("\x83\x00\x00\x90\x63\x00\x05\x91\x60\x04\x40\xa9\x62\x10\x02\x8b\x40\x04\x40\xa9\xc0\x03\x5f\xd6"))
}

// FuzzLen checks that the length decoder always goes on, never past the bytes
// or past what an instruction can have, and does not depend on what follows.
func FuzzLen(f *testing.F) {
	for _, code := range []string{"\x90", "\x0f\x1f\x44\x00\x00", "\xc4\xe3\xfd\x00\xd2\x44", "\x62\xf1\x7c\x48\x10\x44\x24\x01", "\x66\x66\x66\x66"} {
		f.Add([]byte(code))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for off := 0; off < len(b); {
			var x, alone x86Inst
			x.decode(b[off:])
			if x.len < 1 || x.len > x86MaxLen || off+x.len > len(b) || !x.valid && x.len != 1 {
				t.Fatalf("% x at %d: length %d, valid %v", b, off, x.len, x.valid)
			}
			if alone.decode(b[off : off+x.len]); x.valid && alone != x {
				t.Fatalf("% x: %+v, alone %+v", b[off:], x, alone)
			}
			off += x.len
		}
	})
}

// FuzzRefs checks that references come in order and from within the function.
func FuzzRefs(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, arm bool, entry uint64, b []byte) {
		c := fuzzCode(arm, entry, b)
		refs, err := Refs(c)
		if (err != nil) != (len(b) == 0) {
			t.Fatal(err)
		}
		last := 0
		for _, r := range refs {
			off := int(r.PC - entry)
			if off < last || off >= len(b) || r.Size < 0 || r.Op == "" && (r.Read || r.Write) {
				t.Fatalf("% x: %+v", b, r)
			}
			last = off
		}
		again, _ := Refs(c)
		if !slices.EqualFunc(refs, again, func(a, b Ref) bool { return refText(a) == refText(b) }) {
			t.Fatalf("% x: two different answers", b)
		}
		indexBounds(c)
		InferGlobals(func(string) (Code, bool) { return c, true }, func(addr uint64, _ int) bool { return addr%3 != 0 })
	})
}

// FuzzPrologue checks that sites, calls and returns lie within the function.
func FuzzPrologue(f *testing.F) {
	fuzzSeeds(f)
	f.Fuzz(func(t *testing.T, arm bool, entry uint64, b []byte) {
		if len(b) == 0 {
			return
		}
		c := fuzzCode(arm, entry, b)
		inside := func(s Site) {
			if s.Offset < 0 || s.Len < 1 || s.Offset+s.Len > len(b) || s.PC != entry+uint64(s.Offset) {
				t.Fatalf("% x: %+v", b, s)
			}
		}
		for minor := 12; minor <= 27; minor += 5 {
			for _, words := range []int{0, 3, 99} {
				s, err := EntrySite(c, minor, words)
				if err != nil {
					t.Fatal(err)
				}
				inside(s)
			}
		}
		returns, err := Returns(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range returns {
			inside(r.Site)
			if r.Early != nil {
				inside(*r.Early)
			}
			if r.Frame != nil {
				inside(*r.Frame)
			}
		}
		calls, err := Calls(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls {
			if !c.contains(call.PC) || call.Tail && c.contains(call.Target) {
				t.Fatalf("% x: %+v", b, call)
			}
		}
		TLSOffset(c)
	})
}
