package main

import (
	"fmt"
	"go/types"
	"strings"
)

// offsets returns the offsets of the wanted fields that exist, by path.
func (w *world) offsets(structs []wantedStruct) (map[string]uint64, error) {
	found := map[string]uint64{}
	for _, s := range structs {
		if err := w.addStruct(s, found); err != nil {
			return nil, fmt.Errorf("%s.%s with %s/%s: %w", s.pkg, s.name, goName(w.release.version), w.build.GOARCH, err)
		}
	}
	return found, nil
}

// addStruct adds the offsets of the fields of a struct.
func (w *world) addStruct(s wantedStruct, found map[string]uint64) error {
	dir, ok := w.inStd(s.pkg)
	if w.main != nil {
		dir, ok = inModule(w.main, s.pkg)
	}
	if !ok {
		return nil
	}
	p, err := w.load(s.pkg, dir, w.main)
	if err != nil {
		return err
	}
	whole, ok := p.decls[s.name]
	if !ok {
		return nil
	}
	// The fields after the wanted ones can have types of other modules, which would have to be downloaded.
	short, ok := untilLast(whole.node, strings.Fields(s.fields))
	if !ok {
		return nil
	}
	p.decls[s.name] = declaration{short, whole.file}
	defer func() { p.decls[s.name] = whole }()
	object, err := w.check(p, s.name)
	if err != nil {
		return err
	}
	name, ok := object.(*types.TypeName)
	if !ok {
		return nil
	}
	for field := range strings.FieldsSeq(s.fields) {
		if offset, ok := w.offset(name.Type(), field); ok {
			found[s.path(field)] = offset
		}
	}
	return nil
}

// offset returns the offset of a field, or of a field of a field and so on. ok is false if the type does not have it.
func (w *world) offset(t types.Type, field string) (offset uint64, ok bool) {
	name, rest, nested := strings.Cut(field, ".")
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return 0, false
	}
	vars := make([]*types.Var, s.NumFields())
	for i := range vars {
		vars[i] = s.Field(i)
	}
	for i, at := range w.sizes.Offsetsof(vars) {
		if vars[i].Name() != name {
			continue
		}
		if !nested {
			return uint64(at), true
		}
		inner, ok := w.offset(vars[i].Type(), rest)
		return uint64(at) + inner, ok
	}
	return 0, false
}
