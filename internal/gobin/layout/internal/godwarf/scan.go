package godwarf

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted"
)

var (
	// ErrNoDWARF: there is no debug information of the Go runtime.
	ErrNoDWARF = errors.New("no DWARF of the Go runtime")

	// ErrCorrupt: the debug information contradicts itself, ends early or is out of all proportion.
	ErrCorrupt = errors.New("corrupted DWARF")
)

// Sections are the parts of a program's DWARF, uncompressed.
type Sections struct {
	Info   io.Reader // .debug_info from its start; read no further than needed
	Abbrev []byte    // .debug_abbrev

	// Str and LineStr return .debug_str and .debug_line_str. Go's own toolchain does not refer to them, programs that
	// rewrite DWARF may. They may be nil.
	Str, LineStr func() []byte
}

// Result is what was found.
type Result struct {
	GoVersion string                  // of the compiler that made package runtime, "go1.22.12"
	Structs   map[string]table.Struct // by Loupe's name
	Consts    map[string]int64        // those that lie before the types, by Loupe's name
}

// Read finds the wanted structs of the runtime. Errors wrap ErrNoDWARF or ErrCorrupt.
func Read(src Sections) (*Result, error) { return read(src, maxInfo, newTypes(wanted.Structs)) }

// ReadStructs finds structs of any package by their names. Structs that the program does not use are not in the result.
func ReadStructs(src Sections, names []string) (map[string]table.Struct, error) {
	list := make([]wanted.Struct, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	t := newTypes(list)
	t.all = true
	r, err := read(src, maxInfo, t)
	if err != nil {
		return nil, err
	}
	return r.Structs, nil
}

// read is Read with a limit to how much of .debug_info is looked at.
func read(src Sections, limit uint64, t *types) (*Result, error) {
	s := &scanner{
		src:     src,
		in:      stream{r: src.Info, limit: limit, buf: make([]byte, bufferSize)},
		abbrevs: newAbbrevs(src.Abbrev),
		types:   t,
		consts:  map[string]int64{},
	}
	for !s.types.complete {
		u, err := s.nextUnit()
		if err != nil {
			return nil, err
		}
		if u == nil {
			return nil, ErrNoDWARF
		}
		if s.readRoot(u) && u.language == langGo && u.children && isRuntime(u.name) {
			if err := s.readUnit(u); err != nil {
				return nil, err
			}
			if s.goVersion == "" {
				s.goVersion = compilerVersion(u.producer)
			}
		}
		if err := s.in.passTo(u.end); err != nil {
			return nil, err
		}
	}
	structs, err := s.types.layouts()
	if err != nil {
		return nil, err
	}
	return &Result{GoVersion: s.goVersion, Structs: structs, Consts: s.consts}, nil
}

// isRuntime tells whether a compile unit holds types or constants of the runtime.
func isRuntime(name string) bool { return name == "runtime" || name == "internal/abi" }

// maxVersion bounds a version with all its suffixes.
const maxVersion = 200

// compilerVersion takes the Go version out of a unit's producer, "Go cmd/compile go1.22.12; regabi"; it is empty when that
// is not what the producer looks like.
func compilerVersion(producer string) string {
	version, ok := strings.CutPrefix(producer, "Go cmd/compile ")
	version, _, _ = strings.Cut(version, ";")
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if !ok || len(version) > maxVersion || strings.ContainsFunc(version, unprintable) {
		return ""
	}
	return strings.TrimSpace(version)
}

type scanner struct {
	src       Sections
	in        stream
	abbrevs   *abbrevs
	types     *types
	consts    map[string]int64
	goVersion string
	entries   int // read so far
}

const (
	// minWindow is what nearly all entries fit in.
	minWindow = 4 << 10

	maxEntries = 16 << 20 // in units of the runtime; a program of 150 MB has 1 M
)

// entry is what matters of one entry of .debug_info.
type entry struct {
	off      uint64
	tag      uint16
	children bool
	name     []byte
	size     value
	place    value
	constant value
	ref      uint64 // of the type
	hasRef   bool
}

// readUnit reads all entries of a unit, the first one being passed.
func (s *scanner) readUnit(u *unit) error {
	table, err := s.abbrevs.table(u.abbrevOff)
	if err != nil {
		return err
	}
	depth := 1 // of the next entry
	owner := noStruct
	for depth > 0 && s.in.off < u.end {
		var e entry
		if err := s.nextEntry(u, table, &e); err != nil {
			return err
		}
		switch {
		case e.tag == 0:
			depth--
			continue
		case depth == 1:
			if owner, err = s.packageLevel(&e); err != nil {
				return err
			}
		case depth == 2 && owner != noStruct && e.tag == tagMember:
			if err := s.types.addMember(owner, &e); err != nil {
				return err
			}
		}
		if e.children {
			depth++
		}
	}
	return nil
}

// nextEntry reads an entry. Its name is valid until the next one is read.
func (s *scanner) nextEntry(u *unit, table []abbrev, e *entry) error {
	if s.entries++; s.entries > maxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrCorrupt, maxEntries)
	}
	for size := minWindow; size <= maxWindow; size *= 2 {
		b := s.in.window(size)
		full := len(b) >= size
		if left := u.end - s.in.off; uint64(len(b)) >= left {
			b, full = b[:left], false
		}
		c := cursor{b: b}
		err := s.parse(u, table, &c, e)
		if !c.short {
			s.in.pass(c.i)
			return err
		}
		if !full {
			break
		}
	}
	if s.in.err != nil && uint64(s.in.hi-s.in.lo) < u.end-s.in.off {
		return s.in.failure()
	}
	return fmt.Errorf("%w: entry at %#x does not fit its unit", ErrCorrupt, s.in.off)
}

// parse reads an entry from the front of the window.
func (s *scanner) parse(u *unit, table []abbrev, c *cursor, e *entry) error {
	*e = entry{off: s.in.off}
	code := c.uleb()
	if code == 0 {
		return nil
	}
	if code >= uint64(len(table)) || table[code].tag == 0 {
		return fmt.Errorf("%w: no abbreviation %d for the entry at %#x", ErrCorrupt, code, e.off)
	}
	ab := &table[code]
	e.tag, e.children = ab.tag, ab.children
	for i := range ab.attrs {
		at := ab.attrs[i]
		if at.form == formString { // by far the most bytes
			if b := c.str(); at.name == attrName {
				e.name = b
			}
			continue
		}
		v, err := u.value(c, at)
		if err != nil {
			return err
		}
		switch at.name {
		case attrName:
			e.name = s.text(v)
		case attrByteSize:
			e.size = v
		case attrMemberLocation:
			e.place = v
		case attrConstValue:
			e.constant = v
		case attrType:
			e.ref, e.hasRef = u.reference(v)
		}
	}
	return nil
}

// packageLevel takes note of an entry at the top of a unit. It returns the struct whose members follow, if they matter.
func (s *scanner) packageLevel(e *entry) (owner int32, err error) {
	switch e.tag {
	case tagConstant:
		if v, ok := e.constant.number(); ok && len(e.name) > 0 {
			if known, ok := wanted.Const(string(e.name)); ok {
				s.consts[known] = int64(v)
			}
		}
	case tagVariable:
		if e.hasRef {
			s.types.addVariable(e)
		}
	case tagStructType, tagTypedef, tagBaseType, tagPointerType, tagArrayType, tagSubroutineType:
		return s.types.add(e)
	}
	return noStruct, nil
}
