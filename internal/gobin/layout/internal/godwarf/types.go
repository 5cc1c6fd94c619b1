package godwarf

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
	"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted"
)

const (
	pointerSize = 8

	maxTypes   = 2 << 20 // a program of 150 MB has 130,000
	maxMembers = 1 << 20 // of structs that are kept
	maxNames   = 1 << 18 // different names of those members
	maxName    = 1 << 10

	maxTypedefs = 16      // from a type to the one that it stands for
	maxDepth    = 16      // of structs in structs
	maxFields   = 1 << 16 // in all wanted structs together
	maxSize     = 1 << 30 // of a struct
)

// typeEntry is a type in few words: there are many.
type typeEntry struct {
	off  uint32 // in the section
	tag  uint16
	size uint32
	ref  uint32 // of a typedef
	kept int32  // index of a struct whose members are kept, or noStruct
}

// noStruct says that an entry is no struct whose members are kept.
const noStruct int32 = -1

// keptStruct is a struct that is wanted or may be part of one that is.
type keptStruct struct {
	first, n int // of its members
	leaf     bool
}

// member is a field as the debug information has it.
type member struct {
	name string
	off  uint32
	ref  uint32
}

// types collects the types of the program.
type types struct {
	list    []typeEntry // by rising offset
	structs []keptStruct
	members []member
	names   map[string]string // of members, each once

	wanted    []wanted.Struct
	all       bool                     // structs of any package may be part of a wanted one
	named     map[string]wanted.Struct // wanted structs by the names that releases give them
	variables map[string]wanted.Struct // and by the variable whose type they are
	complete  bool                     // the unit with the types has been read, or is being read
	found     map[string]uint32        // offset of a wanted struct by Loupe's name
	ofVar     map[string]uint32        // the same by way of a variable
}

func newTypes(list []wanted.Struct) *types {
	t := &types{
		wanted: list,
		names:  map[string]string{}, named: map[string]wanted.Struct{}, variables: map[string]wanted.Struct{},
		found: map[string]uint32{}, ofVar: map[string]uint32{},
	}
	for _, w := range list {
		t.named[w.Name] = w
		for _, name := range w.Also {
			t.named[name] = w
		}
		if w.Variable != "" {
			t.variables[w.Variable] = w
		}
	}
	return t
}

// essential is the struct whose unit is the one with the types.
const essential = "runtime.g"

// add takes note of a type. It returns the index of a struct whose members are to be kept.
func (t *types) add(e *entry) (int32, error) {
	if len(t.list) >= maxTypes {
		return noStruct, fmt.Errorf("%w: more than %d types", ErrCorrupt, maxTypes)
	}
	entry := typeEntry{off: uint32(e.off), tag: e.tag, kept: noStruct} // maxInfo is within 32 bits
	if size, ok := e.size.number(); ok {
		entry.size = uint32(min(size, maxSize))
	}
	if e.hasRef {
		entry.ref = uint32(min(e.ref, math.MaxUint32))
	}
	switch e.tag {
	case tagStructType:
		t.complete = t.complete || string(e.name) == essential
		if t.all || mayMatter(e.name) {
			entry.kept = int32(len(t.structs))
			t.structs = append(t.structs, keptStruct{first: len(t.members), leaf: wanted.IsLeaf(string(e.name))})
		}
		if w, ok := t.named[string(e.name)]; ok {
			t.found[w.Name] = entry.off
		}
	case tagTypedef:
		// A named array has no struct of its name.
		if w, ok := t.named[string(e.name)]; ok && w.Variable != "" {
			t.ofVar[w.Name] = entry.off
		}
	}
	t.list = append(t.list, entry)
	return entry.kept, nil
}

// mayMatter tells whether a struct may be a wanted one or a part of one, judging by its name: those of the runtime and
// of what it imports, unnamed ones, strings and slices.
func mayMatter(name []byte) bool {
	for _, prefix := range [...]string{"runtime", "internal/", "sync/", "struct {", "string", "[]"} {
		if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

// addMember takes note of a member of the struct that was added last.
func (t *types) addMember(owner int32, e *entry) error {
	place, ok := e.place.memberOffset()
	if !ok || !e.hasRef || len(e.name) == 0 {
		return nil // a bit field, or a form that Go does not use
	}
	name, ok := t.names[string(e.name)]
	if !ok {
		if len(t.names) >= maxNames || len(e.name) > maxName {
			return fmt.Errorf("%w: names of members at %#x", ErrCorrupt, e.off)
		}
		name = string(e.name)
		t.names[name] = name
	}
	if len(t.members) >= maxMembers || place > maxSize || e.ref > math.MaxUint32 {
		return fmt.Errorf("%w: member %.60q at %#x", ErrCorrupt, name, e.off)
	}
	t.members = append(t.members, member{name: name, off: uint32(place), ref: uint32(e.ref)})
	t.structs[owner].n++
	return nil
}

// addVariable takes note of a variable's type if that is how a wanted struct is known.
func (t *types) addVariable(e *entry) {
	if w, ok := t.variables[string(e.name)]; ok && e.ref <= math.MaxUint32 {
		if _, ok := t.ofVar[w.Name]; !ok {
			t.ofVar[w.Name] = uint32(e.ref)
		}
	}
}

// at returns the type at an offset, typedefs followed.
func (t *types) at(off uint32) (typeEntry, bool) {
	for range maxTypedefs {
		i, ok := slices.BinarySearchFunc(t.list, off, func(e typeEntry, off uint32) int { return cmp.Compare(e.off, off) })
		if !ok {
			return typeEntry{}, false
		}
		e := t.list[i]
		switch e.tag {
		case tagTypedef:
			off = e.ref
			continue
		case tagPointerType, tagSubroutineType:
			e.size = pointerSize // Go gives them no size
		}
		return e, true
	}
	return typeEntry{}, false
}

// layouts puts the wanted structs together.
func (t *types) layouts() (map[string]table.Struct, error) {
	structs := map[string]table.Struct{}
	left := maxFields
	for _, w := range t.wanted {
		off, ok := t.found[w.Name]
		if !ok {
			if off, ok = t.ofVar[w.Name]; !ok {
				continue
			}
		}
		e, ok := t.at(off)
		if !ok {
			return nil, fmt.Errorf("%w: type of %s at %#x", ErrCorrupt, w.Name, off)
		}
		f := flattener{types: t, wanted: w, fields: map[string]table.Field{}, left: &left}
		if e.kept != noStruct {
			if err := f.flatten(e, "", 0, 0); err != nil {
				return nil, err
			}
		}
		structs[w.Name] = table.Struct{Size: e.size, Fields: f.fields}
	}
	return structs, nil
}

// flattener adds the fields of one wanted struct.
type flattener struct {
	types  *types
	wanted wanted.Struct
	fields map[string]table.Field
	left   *int // how many fields there may yet be
}

// flatten adds the members of a struct at an offset, nested ones included.
func (f *flattener) flatten(outer typeEntry, prefix string, base uint32, depth int) error {
	s := f.types.structs[outer.kept]
	for _, m := range f.types.members[s.first : s.first+s.n] {
		e, ok := f.types.at(m.ref)
		if !ok {
			return fmt.Errorf("%w: type of field %.80q of %s at %#x", ErrCorrupt, prefix+m.name, f.wanted.Name, m.ref)
		}
		if m.name == "_" || e.size == 0 {
			continue
		}
		*f.left--
		if uint64(m.off)+uint64(e.size) > uint64(outer.size) || depth > maxDepth || *f.left < 0 {
			return fmt.Errorf("%w: field %.80q of %s does not fit its struct", ErrCorrupt, prefix+m.name, f.wanted.Name)
		}
		path := f.wanted.Field(prefix + m.name)
		f.fields[path] = table.Field{Offset: base + m.off, Size: e.size}
		if e.kept == noStruct || f.wanted.Shallow || f.types.structs[e.kept].leaf {
			continue
		}
		if err := f.flatten(e, path+".", base+m.off, depth+1); err != nil {
			return err
		}
	}
	return nil
}
