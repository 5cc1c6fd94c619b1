package gobin

import (
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// A Kind classifies types by how their values are passed to functions.
type Kind uint8

// The kinds. Each is followed by the Go types that have it.
const (
	KindOther     Kind = iota // a type that is not understood
	KindBool                  // bool
	KindInt                   // int, int8, int16, int32, int64
	KindUint                  // uint and its kin, uintptr
	KindFloat                 // float32, float64
	KindComplex               // complex64, complex128
	KindPointer               // pointers, maps, channels, functions, unsafe.Pointer
	KindString                // string
	KindSlice                 // slices
	KindInterface             // interfaces with methods
	KindEmpty                 // interfaces without methods
	KindStruct                // structs
	KindArray                 // arrays
)

// A Type is the type of a parameter or a result.
type Type struct {
	Name   string
	Kind   Kind
	Size   int     // in bytes
	Align  int     // in bytes
	Fields []Field // of a struct
	Elem   *Type   // of an array
	Len    int     // of an array
}

// A Field is a field of a struct.
type Field struct {
	Offset int
	Type   *Type
}

// A Variable is a parameter or a result of a function. The receiver of a method is its first parameter.
type Variable struct {
	Name   string // as in the debug information: "~p0" for a parameter and "~r0" for a result without a name
	Type   *Type
	Result bool
}

// ErrNoSignature reports that an executable has no debug information about a function.
var ErrNoSignature = errors.New("no debug information about the function")

const (
	maxDWARF     = 1 << 30 // bytes of a section
	maxTypeDepth = 32
	maxVariables = 256
	maxEntries   = 1 << 16            // that are read for the types of one function
	typeParam    = ".param"           // begins the names of types that stand for type parameters
	attrGoKind   = dwarf.Attr(0x2900) // DW_AT_go_kind (cmd/internal/dwarf)
)

// A Signatures reads signatures from the debug information of an executable, of which it holds a copy in memory.
type Signatures struct {
	data  *dwarf.Data
	types map[dwarf.Offset]*Type
	read  int // entries of types, for the current function
}

// Signatures reads the debug information. The error is ErrNoSignature if the executable has none.
func (b *Binary) Signatures() (s *Signatures, err error) {
	src, ok := layout.DWARFOf(b.image.elf)
	if !ok {
		return nil, ErrNoSignature
	}
	defer func() {
		// The standard library's reader is not designed for hostile input.
		if p := recover(); p != nil {
			s, err = nil, b.errorf("%w: debug information: %v", ErrCorrupt, p)
		}
	}()
	var sections [4][]byte
	for i, name := range []string{".debug_abbrev", ".debug_info", ".debug_ranges", ".debug_str"} {
		if sections[i], err = section(src, name); err != nil {
			return nil, b.errorf("%w", err)
		}
	}
	d, err := dwarf.New(sections[0], nil, nil, sections[1], nil, nil, sections[2], sections[3])
	if err != nil {
		return nil, b.errorf("debug information: %w", err)
	}
	for _, name := range []string{".debug_addr", ".debug_str_offsets", ".debug_rnglists", ".debug_line_str"} {
		contents, err := section(src, name)
		if err != nil {
			return nil, b.errorf("%w", err)
		}
		if len(contents) == 0 {
			continue
		}
		if err := d.AddSection(name, contents); err != nil {
			return nil, b.errorf("debug information: %w", err)
		}
	}
	return &Signatures{data: d, types: map[dwarf.Offset]*Type{}}, nil
}

// section returns the contents of a section; nil if there is none.
func section(src layout.DWARFSource, name string) ([]byte, error) {
	r := src.Section(name)
	if r == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(r, maxDWARF+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCorrupt, name, err)
	}
	if len(b) > maxDWARF {
		return nil, fmt.Errorf("%w: %s of more than %d MB", ErrUnsupported, name, maxDWARF>>20)
	}
	return b, nil
}

// Of returns the parameters of a function and then its results, in their order. The error is ErrNoSignature if the debug information
// does not describe the function.
func (s *Signatures) Of(f Func) (list []Variable, err error) {
	defer func() {
		if p := recover(); p != nil {
			list, err = nil, fmt.Errorf("%w: debug information of %s: %v", ErrCorrupt, f.Name, p)
		}
	}()
	s.read = 0
	r := s.data.Reader()
	if _, err := r.SeekPC(f.Entry); err != nil {
		return nil, ErrNoSignature
	}
	for {
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil || e.Tag == dwarf.TagCompileUnit {
			return nil, ErrNoSignature
		}
		if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok && e.Tag == dwarf.TagSubprogram && low == f.Entry {
			return s.variables(r)
		}
	}
}

// variables returns those of the function whose entry was read last.
func (s *Signatures) variables(r *dwarf.Reader) ([]Variable, error) {
	var list []Variable
	for depth := 0; depth >= 0; {
		e, err := r.Next()
		if err != nil || e == nil {
			return list, err
		}
		switch {
		case e.Tag == 0:
			depth--
			continue
		case e.Tag == dwarf.TagFormalParameter && depth == 0:
			v, err := s.variable(e)
			if err != nil {
				return nil, err
			}
			// Some releases list a result twice if it is in memory.
			twice := false
			for _, other := range list {
				twice = twice || other.Name == v.Name && v.Name != "_"
			}
			if !twice {
				list = append(list, v)
			}
			if len(list) > maxVariables {
				return nil, fmt.Errorf("%w: a function with more than %d parameters", ErrUnsupported, maxVariables)
			}
		}
		if e.Children {
			depth++
		}
	}
	return list, nil
}

// variable returns a parameter or a result.
func (s *Signatures) variable(e *dwarf.Entry) (v Variable, err error) {
	result, typ := false, dwarf.Offset(0)
	for n := 0; e != nil && n < 4; n++ {
		if name, ok := e.Val(dwarf.AttrName).(string); ok && v.Name == "" {
			v.Name = name
		}
		if t, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok && typ == 0 {
			typ = t
		}
		out, _ := e.Val(dwarf.AttrVarParam).(bool)
		result = result || out
		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			break
		}
		if e, err = s.entry(origin); err != nil {
			return v, err
		}
	}
	v.Result = result
	v.Type, err = s.typeAt(typ, 0)
	return v, err
}

// entry returns the entry at an offset.
func (s *Signatures) entry(at dwarf.Offset) (*dwarf.Entry, error) {
	if s.read++; s.read > maxEntries {
		return nil, fmt.Errorf("%w: too many types", ErrUnsupported)
	}
	r := s.data.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err == nil && e == nil {
		err = fmt.Errorf("%w: no debug information at %#x", ErrCorrupt, at)
	}
	return e, err
}

// kinds are the kinds of types by reflect.Kind.
var kinds = map[int64]Kind{
	1: KindBool, 2: KindInt, 3: KindInt, 4: KindInt, 5: KindInt, 6: KindInt, 7: KindUint, 8: KindUint, 9: KindUint, 10: KindUint, 11: KindUint, 12: KindUint,
	13: KindFloat, 14: KindFloat, 15: KindComplex, 16: KindComplex, 18: KindPointer, 19: KindPointer, 21: KindPointer, 22: KindPointer, 23: KindSlice,
	24: KindString, 26: KindPointer,
}

// typeAt returns the type at an offset.
func (s *Signatures) typeAt(at dwarf.Offset, depth int) (*Type, error) {
	if t := s.types[at]; t != nil {
		return t, nil
	}
	if depth > maxTypeDepth {
		return nil, fmt.Errorf("%w: types that are nested more than %d times", ErrUnsupported, maxTypeDepth)
	}
	e, err := s.entry(at)
	if err != nil {
		return nil, err
	}
	t := &Type{}
	t.Name, _ = e.Val(dwarf.AttrName).(string)
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	kind, _ := e.Val(attrGoKind).(int64)
	t.Size, t.Kind = int(size), kinds[kind]
	switch e.Tag {
	case dwarf.TagTypedef:
		to, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
		if !ok {
			break
		}
		under, err := s.typeAt(to, depth+1)
		if err != nil {
			return nil, err
		}
		name := t.Name
		if *t = *under; !strings.HasPrefix(name, typeParam) {
			t.Name = name
		}
	case dwarf.TagPointerType, dwarf.TagSubroutineType:
		t.Kind, t.Size = KindPointer, 8
	case dwarf.TagStructType:
		err = s.structType(t, e, depth)
	case dwarf.TagArrayType:
		err = s.arrayType(t, e, depth)
	}
	if err != nil {
		return nil, err
	}
	t.align()
	s.types[at] = t
	return t, nil
}

// align sets the alignment.
func (t *Type) align() {
	switch t.Kind {
	case KindBool, KindInt, KindUint, KindFloat:
		t.Align = max(min(t.Size, 8), 1)
	case KindComplex:
		t.Align = max(t.Size/2, 1)
	case KindStruct:
		t.Align = 1
		for _, f := range t.Fields {
			t.Align = max(t.Align, f.Type.Align)
		}
	case KindArray:
		t.Align = t.Elem.Align
	default:
		t.Align = 8
	}
}

// structType completes a type that is a struct in the debug information.
func (s *Signatures) structType(t *Type, e *dwarf.Entry, depth int) error {
	switch t.Name {
	case "runtime.iface":
		t.Kind = KindInterface
	case "runtime.eface":
		t.Kind = KindEmpty
	}
	if t.Kind != KindOther {
		return nil
	}
	t.Kind = KindStruct
	return s.children(e, func(c *dwarf.Entry) error {
		to, ok := c.Val(dwarf.AttrType).(dwarf.Offset)
		if c.Tag != dwarf.TagMember || !ok {
			return nil
		}
		offset, _ := c.Val(dwarf.AttrDataMemberLoc).(int64)
		field, err := s.typeAt(to, depth+1)
		if err == nil {
			t.Fields = append(t.Fields, Field{Offset: int(offset), Type: field})
		}
		return err
	})
}

// arrayType completes a type that is an array.
func (s *Signatures) arrayType(t *Type, e *dwarf.Entry, depth int) error {
	to, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return nil
	}
	elem, err := s.typeAt(to, depth+1)
	if err != nil {
		return err
	}
	t.Kind, t.Elem = KindArray, elem
	return s.children(e, func(c *dwarf.Entry) error {
		if n, ok := c.Val(dwarf.AttrCount).(int64); ok && c.Tag == dwarf.TagSubrangeType {
			t.Len = int(n)
		}
		return nil
	})
}

// children calls fn for the children of an entry.
func (s *Signatures) children(e *dwarf.Entry, fn func(*dwarf.Entry) error) error {
	if !e.Children {
		return nil
	}
	r := s.data.Reader()
	r.Seek(e.Offset)
	if _, err := r.Next(); err != nil {
		return err
	}
	for {
		c, err := r.Next()
		if err != nil || c == nil || c.Tag == 0 {
			return err
		}
		if err := fn(c); err != nil {
			return err
		}
		if c.Children {
			r.SkipChildren()
		}
	}
}
