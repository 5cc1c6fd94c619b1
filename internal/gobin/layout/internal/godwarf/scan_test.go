package godwarf

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted"
)

// wantG is the runtime.g of the test program.
var wantG = map[string]table.Field{
	"stack": {Offset: 0, Size: 16}, "stack.lo": {Offset: 0, Size: 8}, "stack.hi": {Offset: 8, Size: 8},
	"m": {Offset: 16, Size: 8}, "atomicstatus": {Offset: 28, Size: 4}, "goid": {Offset: 32, Size: 8},
}

func TestRead(t *testing.T) {
	for _, version := range []int{2, 3, 4, 5} {
		info := program(version)
		for name, r := range map[string]io.Reader{
			"whole":       bytes.NewReader(info),
			"single byte": iotest.OneByteReader(bytes.NewReader(info)),
			"with error":  iotest.DataErrReader(bytes.NewReader(info)),
		} {
			got, err := Read(Sections{Info: r, Abbrev: testAbbrev()})
			if err != nil {
				t.Fatalf("DWARF %d, %s: %v", version, name, err)
			}
			if g := got.Structs["runtime.g"]; g.Size != 40 || !maps.Equal(g.Fields, wantG) {
				t.Errorf("DWARF %d, %s: runtime.g = %+v, want 40 bytes and %+v", version, name, g, wantG)
			}
			if w := got.Structs["runtime.workType"]; w.Size != 64 || w.Fields["tstart"] != (table.Field{Offset: 56, Size: 8}) {
				t.Errorf("DWARF %d, %s: runtime.workType = %+v", version, name, w)
			}
			if want := map[string]int64{"runtime._Gwaiting": 4}; !maps.Equal(got.Consts, want) {
				t.Errorf("DWARF %d, %s: constants %v, want %v", version, name, got.Consts, want)
			}
			if got.GoVersion != "go1.22.12" {
				t.Errorf("DWARF %d, %s: version %q", version, name, got.GoVersion)
			}
		}
	}
}

// TestReadStopsBehindTypes shows that nothing behind the unit of the types is asked for.
func TestReadStopsBehindTypes(t *testing.T) {
	b := &infoBuilder{version: 4}
	b.typesUnit()
	boom := errors.New("read on")
	r := io.MultiReader(bytes.NewReader(b.Bytes()), iotest.ErrReader(boom))
	if _, err := Read(Sections{Info: r, Abbrev: testAbbrev()}); err != nil {
		t.Fatal(err)
	}
}

func TestReadLargeEntries(t *testing.T) {
	for _, size := range []int{minWindow - 1, minWindow, bufferSize + 1, maxWindow / 2} {
		b := &infoBuilder{version: 5}
		b.unit("runtime", langGo)
		b.entry(codeTypedef, strings.Repeat("x", size), ref(0))
		b.end()
		b.typesUnit()
		got, err := Read(Sections{Info: bytes.NewReader(b.Bytes()), Abbrev: testAbbrev()})
		if err != nil {
			t.Fatalf("name of %d bytes: %v", size, err)
		}
		if g := got.Structs["runtime.g"]; !maps.Equal(g.Fields, wantG) {
			t.Errorf("name of %d bytes: runtime.g = %+v", size, g)
		}
	}
	b := &infoBuilder{version: 5}
	b.unit("runtime", langGo)
	b.entry(codeTypedef, strings.Repeat("x", 2*maxWindow), ref(0))
	b.end()
	if _, err := Read(Sections{Info: bytes.NewReader(b.Bytes()), Abbrev: testAbbrev()}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("name of %d bytes: %v, want ErrCorrupt", 2*maxWindow, err)
	}
}

// TestReadNamesInStringSection covers DWARF that another tool rewrote.
func TestReadNamesInStringSection(t *testing.T) {
	abbrev := bytes.Replace(testAbbrev(),
		[]byte{codeStruct, tagStructType, 1, attrName, formString}, []byte{codeStruct, tagStructType, 1, attrName, formStrp}, 1)
	strs := []byte("\x00runtime.g\x00")
	b := &infoBuilder{version: 4}
	b.unit("runtime", langGo)
	word := b.entry(codeBase, "uintptr", byte(8))
	b.entry(codeStruct, ref(1), uleb(8))
	b.entry(codeMember, "goid", uleb(0), word)
	b.WriteByte(0)
	b.end()
	src := Sections{Info: bytes.NewReader(b.Bytes()), Abbrev: abbrev, Str: func() []byte { return strs }}
	got, err := Read(src)
	if err != nil {
		t.Fatal(err)
	}
	if f := got.Structs["runtime.g"].Fields["goid"]; f.Size != 8 {
		t.Errorf("goid = %+v", f)
	}
	src.Info, src.Str = bytes.NewReader(b.Bytes()), nil
	if _, err := Read(src); !errors.Is(err, ErrNoDWARF) {
		t.Errorf("without the section: %v, want ErrNoDWARF", err)
	}
}

func TestReadTruncated(t *testing.T) {
	info, abbrev := program(5), testAbbrev()
	whole := func(info, abbrev []byte) error {
		_, err := Read(Sections{Info: bytes.NewReader(info), Abbrev: abbrev})
		return err
	}
	typesEnd := len(info) - lastUnitSize(t, info)
	for n := range info {
		err := whole(info[:n], abbrev)
		if n >= typesEnd && err != nil || n < typesEnd && !errors.Is(err, ErrNoDWARF) && !errors.Is(err, ErrCorrupt) {
			t.Errorf(".debug_info cut to %d of %d bytes: %v", n, len(info), err)
		}
	}
	for n := range abbrev {
		if err := whole(info, abbrev[:n]); err != nil && !errors.Is(err, ErrNoDWARF) && !errors.Is(err, ErrCorrupt) {
			t.Errorf(".debug_abbrev cut to %d of %d bytes: %v", n, len(abbrev), err)
		}
	}
}

// lastUnitSize walks the units by their lengths.
func lastUnitSize(t *testing.T, info []byte) int {
	size := 0
	for len(info) > 0 {
		size = int(binary.LittleEndian.Uint32(info)) + 4
		if size > len(info) {
			t.Fatal("the test program's units do not add up")
		}
		info = info[size:]
	}
	return size
}

func TestReadHostile(t *testing.T) {
	word := func(b *infoBuilder) ref { return b.entry(codeBase, "uintptr", byte(8)) }
	for name, build := range map[string]func(b *infoBuilder){
		"field outside of its struct": func(b *infoBuilder) {
			w := word(b)
			b.entry(codeStruct, "runtime.g", uleb(8))
			b.entry(codeMember, "goid", uleb(1), w)
			b.WriteByte(0)
		},
		"struct within itself": func(b *infoBuilder) {
			self := ref(b.Len())
			b.entry(codeStruct, "runtime.g", uleb(8))
			b.entry(codeMember, "g", uleb(0), self)
			b.WriteByte(0)
		},
		"structs that multiply": func(b *infoBuilder) {
			inner := word(b)
			for range 12 {
				next := b.entry(codeStruct, "runtime.x", uleb(8))
				for _, name := range []string{"a", "b", "c", "d"} {
					b.entry(codeMember, name, uleb(0), inner)
				}
				b.WriteByte(0)
				inner = next
			}
			b.entry(codeStruct, "runtime.g", uleb(8))
			b.entry(codeMember, "x", uleb(0), inner)
			b.WriteByte(0)
		},
		"typedef of itself": func(b *infoBuilder) {
			self := ref(b.Len())
			b.entry(codeTypedef, "runtime.loop", self)
			b.entry(codeStruct, "runtime.g", uleb(8))
			b.entry(codeMember, "loop", uleb(0), self)
			b.WriteByte(0)
		},
		"type that is nowhere": func(b *infoBuilder) {
			b.entry(codeStruct, "runtime.g", uleb(8))
			b.entry(codeMember, "goid", uleb(0), ref(0xffffff))
			b.WriteByte(0)
		},
		"abbreviation that is nowhere": func(b *infoBuilder) { b.entry(99) },
	} {
		b := &infoBuilder{version: 5}
		b.unit("runtime", langGo)
		build(b)
		b.end()
		if _, err := Read(Sections{Info: bytes.NewReader(b.Bytes()), Abbrev: testAbbrev()}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
}

func TestCompilerVersion(t *testing.T) {
	for producer, want := range map[string]string{
		"Go cmd/compile go1.22.12; regabi":                         "go1.22.12",
		"Go cmd/compile go1.12":                                    "go1.12",
		"Go cmd/compile devel go1.28-0123abc Tue":                  "devel go1.28-0123abc Tue",
		"Go cmd/compile go1.24.1 X:foo,bar; regabi":                "go1.24.1 X:foo,bar",
		"GNU Go 12.2.0":                                            "",
		"Go cmd/compile go1.22\x1b[31m":                            "",
		"Go cmd/compile go1.22" + strings.Repeat(".0", maxVersion): "",
	} {
		if got := compilerVersion(producer); got != want {
			t.Errorf("%.80q: %q, want %q", producer, got, want)
		}
	}
}

// TestReadBomb gives sections that expand without end.
func TestReadBomb(t *testing.T) {
	const limit = 1 << 20
	unit := &infoBuilder{version: 4}
	unit.unit("main", langGo)
	unit.end()
	open := &infoBuilder{version: 4}
	open.unit("runtime", langGo)
	binary.LittleEndian.PutUint32(open.Bytes(), maxInfo)
	for name, r := range map[string]*endless{
		"units":                        {tail: unit.Bytes()},
		"entries":                      {head: open.Bytes(), tail: []byte{codeTypedef, 'x', 0, 1, 0, 0, 0}},
		"functions in functions":       {head: open.Bytes(), tail: []byte{codeFunction, 0}},
		"one name":                     {head: append(open.Bytes(), codeTypedef), tail: []byte{'x'}},
		"members":                      {head: append(open.Bytes(), codeStruct, 0, 0), tail: []byte{codeMember, 'x', 0, 0, 0, 0, 0, 0}},
		"zeros, which are empty units": {tail: []byte{0}},
	} {
		_, err := read(Sections{Info: r, Abbrev: testAbbrev()}, limit, newTypes(wanted.Structs))
		if !errors.Is(err, ErrCorrupt) || r.n > 2*limit+maxWindow {
			t.Errorf("%s: %d bytes read, %v; want ErrCorrupt after some %d", name, r.n, err, limit)
		}
	}
}

// endless is a reader that never ends.
type endless struct {
	head, tail []byte // the tail is repeated
	n          int    // bytes read so far
}

func (r *endless) Read(p []byte) (int, error) {
	for i := range p {
		if r.n < len(r.head) {
			p[i] = r.head[r.n]
		} else {
			p[i] = r.tail[(r.n-len(r.head))%len(r.tail)]
		}
		r.n++
	}
	return len(p), nil
}

func FuzzRead(f *testing.F) {
	for _, version := range []int{2, 3, 4, 5} {
		f.Add(program(version), testAbbrev())
	}
	f.Fuzz(func(t *testing.T, info, abbrev []byte) {
		// As it is, and as the compressed stream that it would arrive in.
		got, err := Read(Sections{Info: bytes.NewReader(info), Abbrev: abbrev, Str: func() []byte { return info }})
		check(t, got, err)
		if z, zerr := zlib.NewReader(bytes.NewReader(info)); zerr == nil {
			got, err = Read(Sections{Info: z, Abbrev: abbrev})
			check(t, got, err)
		}
	})
}

// check fails unless a result is a layout that can be or an error that callers know.
func check(t *testing.T, got *Result, err error) {
	if err != nil {
		if !errors.Is(err, ErrNoDWARF) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("unexpected error %v", err)
		}
		return
	}
	for name, s := range got.Structs {
		for field, f := range s.Fields {
			if f.Size == 0 || uint64(f.Offset)+uint64(f.Size) > uint64(s.Size) {
				t.Fatalf("%s.%s = %+v in %d bytes", name, field, f, s.Size)
			}
		}
	}
}
