package library

import (
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
)

//go:generate go run ./gen -table table.txt

//go:embed table.txt
var tableText string

// A Range is a range of versions of a module in which a field has one offset.
type Range struct {
	Module string // its path, or "std" for the standard library
	Since  string // the first version, such as "v1.22.0"
	Until  string // the first version after the range; empty means no bound
	Offset uint64 // in bytes, from the start of the struct
}

// Ranges returns the ranges of versions in which a field exists and has a known offset. Those of one module are next to
// each other, oldest first. The result is empty if the table does not have the field.
func Ranges(field string) []Range { return slices.Clone(fieldRanges()[field]) }

// Fields returns the paths of all fields in the table, sorted.
func Fields() []string {
	fields := make([]string, 0, len(fieldRanges()))
	for path := range fieldRanges() {
		fields = append(fields, path)
	}
	slices.Sort(fields)
	return fields
}

// Lookup returns the offset of a field in a version of a module. ok is false if the field does not exist in that version, or
// if its offset is unknown.
func Lookup(module, version, field string) (offset uint64, ok bool) {
	v, err := table.ParseVersion(version)
	if err != nil {
		return 0, false
	}
	for _, r := range fieldRanges()[field] {
		if r.Module == module && r.contains(v) {
			return r.Offset, true
		}
	}
	return 0, false
}

// contains reports whether a version is in the range.
func (r Range) contains(v table.Version) bool {
	since, err := table.ParseVersion(r.Since)
	if err != nil || v.Compare(since) < 0 {
		return false
	}
	until, err := table.ParseVersion(r.Until)
	return err == nil && v.Compare(until) < 0
}

// fieldRanges returns the ranges in the embedded table by the path of the field.
var fieldRanges = sync.OnceValue(func() map[string][]Range {
	t, err := table.Parse(tableText)
	if err != nil {
		panic(fmt.Sprintf("table.txt: %v", err)) // the tests parse it
	}
	return rangesOf(t)
})

// rangesOf returns the ranges in a table by the path of the field.
func rangesOf(t *table.Table) map[string][]Range {
	ranges := map[string][]Range{}
	for _, m := range t.Modules {
		for _, f := range m.Fields {
			for i, c := range f.Changes {
				until := m.Newest.NextMinor()
				if i+1 < len(f.Changes) {
					until = f.Changes[i+1].Since
				}
				if c.Known {
					ranges[f.Path] = append(ranges[f.Path], Range{m.Path, c.Since.String(), until.String(), c.Offset})
				}
			}
		}
	}
	return ranges
}
