package main

import "strings"

// A module is a module whose structs are wanted.
type module struct {
	path     string
	since    string   // the first version that is examined; not for the standard library
	versions []string // the versions that are examined in addition to the newest one, if the module has only pseudo-versions
	structs  []wantedStruct
}

// A wantedStruct is a struct and the paths of its wanted fields, separated by spaces.
type wantedStruct struct {
	pkg, name, fields string
}

// path returns the path of a field in the table.
func (s wantedStruct) path(field string) string { return s.pkg + "." + s.name + "." + field }

// paths returns the paths of all wanted fields.
func (m module) paths() []string {
	var paths []string
	for _, s := range m.structs {
		for field := range strings.FieldsSeq(s.fields) {
			paths = append(paths, s.path(field))
		}
	}
	return paths
}

// wanted are the modules whose fields are in the table.
var wanted = []module{
	{path: "std", structs: standardStructs},
}
