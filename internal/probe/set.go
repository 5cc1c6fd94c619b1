package probe

import (
	"fmt"
	"slices"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/library"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// A Set is a group of probes with one owner: this package for the Go runtime, and a separate package for each
// instrumented library. It is the Go half of a C source, whose probes and settings it refers to by name. A session has
// the runtime's set and those in Want.Sets.
//
// A Set belongs to one session.
type Set struct {
	Name   string     // for messages, such as "net/http server"
	Code   *csrc.Code // the C half
	Probes []Declaration

	// Selected says that the user has selected what the set reports: see inline.Engine.RequireSelected.
	Selected bool

	// Settings are the numbers that the C half receives in addition to csrc.Config, in any order.
	Settings []Setting

	// Tables are the tables of counters in the C half.
	Tables []Table

	// Decode receives the notes of the set, in order, from the goroutine that reads the session's events. It is nil if the
	// C half sends none.
	Decode func(*Note)
}

// Std is the path of the standard library as a module. Its version is that of the Go release, such as "v1.22.0".
const Std = "std"

// A Module is a range of versions of a module.
type Module struct {
	Path         string // "google.golang.org/grpc", or Std
	Since, Until string // since "v1.14.0", before Until; empty means no bound
}

// A Setting is a number that the C half of a set reads by its name: the offset of a field, or the result of Value. It
// is 0 if it is unknown. Declaration.Settings lists the settings that a probe requires.
type Setting struct {
	Name string

	// Fields are the paths of a field of a struct, such as "example.com/lib.Request.url.path". Versions may have different
	// paths. The offset is that of the first path in the target's DWARF. If there is none, it comes from package layout,
	// which has the structs of the runtime, from Offsets, or from package library.
	Fields []string
	// Offsets are the field's offsets by the version of a module, for targets without DWARF. Without Fields, they are other numbers
	// that depend on the version.
	Offsets []Offset

	// Plus returns a number that is added to the offset. It may be nil.
	Plus func(Program) uint64

	// Value returns a number other than an offset. It is nil if Fields or Offsets is set.
	Value func(Program) (uint64, error)
}

// A Table is a table in which a probe counts by a key, without an event. Each key has the number of times that it was
// counted, and values to which the probe adds.
type Table struct {
	Name   string
	Values int // number of values for each key, as in the C source
	Kept   int // of these, the last ones describe the key: each processor or lane has the same number, or 0
	Keys   int // number of keys for which there is room; hits of other keys are counted in Cells.Overflow
}

// An Offset is the offset of a field in some versions of a module. It is the same on amd64 and arm64.
type Offset struct {
	Module Module
	Offset uint64
}

// of returns the number for a program, given the offsets of fields in its DWARF.
func (s *Setting) of(p Program, offsets map[string]uint64) (uint64, error) {
	if s.Value != nil {
		return s.Value(p)
	}
	offset, err := s.offset(p, offsets)
	if err == nil && s.Plus != nil {
		offset += s.Plus(p)
	}
	return offset, err
}

// offset returns the offset of the field.
func (s *Setting) offset(p Program, offsets map[string]uint64) (uint64, error) {
	for _, path := range s.Fields {
		if offset, ok := offsets[path]; ok {
			return offset, nil
		}
	}
	for _, path := range s.Fields {
		if f, ok := p.Layout().Field(path); ok {
			return uint64(f.Offset), nil
		}
	}
	for _, o := range s.Offsets {
		if o.Module.In(p.Binary()) {
			return o.Offset, nil
		}
	}
	for _, path := range s.Fields {
		for _, r := range library.Ranges(path) {
			if (Module{Path: r.Module, Since: r.Since, Until: r.Until}).In(p.Binary()) {
				return r.Offset, nil
			}
		}
	}
	if len(s.Fields) == 0 {
		return 0, fmt.Errorf("the number %s is unknown for this executable", s.Name)
	}
	return 0, fmt.Errorf("the offset of %s is unknown in this executable", s.Fields[0])
}

// A PlannedSet is a set with its settings for one program.
type PlannedSet struct {
	*Set
	First    int   // the number of its first probe among the probes of all sets
	Kind     uint8 // of its records; 0 for the runtime's set
	Sites    []csrc.Site
	Settings []uint64     // by number
	Tables   []csrc.Table // by number
}

// Bytes returns the settings in the form of the C half: struct loupe_set.
func (s *PlannedSet) Bytes() []byte {
	return csrc.SetBytes(s.Kind, s.Sites, s.Settings, s.Tables)
}

// Kept returns Table.Kept of a table by its number.
func (s *PlannedSet) Kept(table int) int {
	i := slices.IndexFunc(s.Set.Tables, func(t Table) bool { return t.Name == s.Code.Tables[table] })
	return s.Set.Tables[i].Kept // setTables has checked that all are declared
}

// planSet returns a set without places.
func planSet(s *Set, first int) PlannedSet {
	return PlannedSet{Set: s, First: first, Sites: make([]csrc.Site, len(s.Code.Probes)), Settings: make([]uint64, len(s.Code.Settings)),
		Tables: make([]csrc.Table, len(s.Code.Tables))}
}

// number returns the number of a declared probe in its C half.
func (s *Set) number(program string) (csrc.Probe, error) {
	i := slices.Index(s.Code.Probes, program)
	if i < 0 {
		return 0, fmt.Errorf("%s: the C source has no probe %s", s.Name, program)
	}
	return csrc.Probe(i), nil
}

// In reports whether a program contains one of the versions of the module.
func (m Module) In(bin *gobin.Binary) bool {
	v, ok := moduleVersion(bin.BuildInfo(), m.Path)
	if m.Path == Std {
		v, ok = version{numbers: [3]int{1, bin.Version().Minor, bin.Version().Patch}}, true
	}
	return ok && v.in(m.Since, m.Until)
}
