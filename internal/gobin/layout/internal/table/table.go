// Package table reads and writes the text format for the struct layouts of many Go releases.
//
// A [Snapshot] contains the layouts of one release on one architecture. The text contains the snapshots of all
// releases, but each value only where it changes. A release without changes adds one word to the file, and a release
// that moves a field shows exactly that field in a diff:
//
//	releases 1.12 1.12.17 1.13 ...
//	struct runtime.g amd64 arm64
//	(size) 1.12=376 1.14=384 ...
//	goid 1.12=152:8 1.22=152:8 ...
//	parentGoid 1.21=280:8
//	consts amd64 arm64
//	runtime._Gwaiting 1.12=4
//	strings runtime.waitReasonStrings amd64 arm64
//	since 1.12
//	""
//	"GC assist marking"
//
// A section applies to the architectures in its first line. If they differ, each has a section of its own. The lines
// after a struct are its size and its fields, as since=offset:size in bytes, or with a dash if the release removed the
// field. A value is valid from the release before the equals sign until the next release in the line. Lines are sorted
// by name.
package table

import "strings"

// Field is a field's place in a struct, in bytes.
type Field struct {
	Offset, Size uint32
}

// Struct is a struct's size in bytes and its fields by path: "sched" and "sched.sp" alike.
type Struct struct {
	Size   uint32
	Fields map[string]Field
}

// Snapshot is what is known of one release on one architecture.
type Snapshot struct {
	Structs map[string]Struct
	Consts  map[string]int64
	Strings map[string][]string
}

// NewSnapshot returns an empty Snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{Structs: map[string]Struct{}, Consts: map[string]int64{}, Strings: map[string][]string{}}
}

// The words that begin a section, and those with a meaning inside one.
const (
	wordReleases = "releases"
	wordStruct   = "struct"
	wordConsts   = "consts"
	wordStrings  = "strings"
	wordSince    = "since"
	wordSize     = "(size)" // no field can be called so
	absent       = "-"
	comment      = "#"
)

// CutPath splits "runtime/pprof.labelMap.LabelSet.list" into the struct's name and the field's path.
func CutPath(path string) (structName, field string, ok bool) {
	pkg := strings.LastIndexByte(path, '/') + 1
	dot := strings.IndexByte(path[pkg:], '.')
	if dot < 0 {
		return path, "", false
	}
	name := pkg + dot + 1
	end := strings.IndexByte(path[name:], '.')
	if end < 0 {
		return path, "", false
	}
	return path[:name+end], path[name+end+1:], true
}
