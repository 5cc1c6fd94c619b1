package library_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/library"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestDWARF compares the fields of the standard library with the DWARF of a program. The program has all of the structs.
func TestDWARF(t *testing.T) {
	var specs []testtarget.Spec
	for _, release := range testtarget.Versions() {
		const oldestMinor = 19
		if minor(t, release) >= oldestMinor {
			specs = append(specs, testtarget.Spec{Program: "shop", Go: release, Arch: testtarget.ARM64},
				testtarget.Spec{Program: "shop", Go: release, Arch: testtarget.AMD64})
		}
	}
	for _, spec := range testtarget.Last(t, specs) {
		t.Run(spec.String(), func(t *testing.T) {
			bin, err := gobin.Open(testtarget.Build(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			defer bin.Close()
			compare(t, bin, "std", "v"+spec.Go)
		})
	}
}

// compare compares the fields of a module with the DWARF of an executable.
func compare(t *testing.T, bin *gobin.Binary, module, version string) {
	t.Helper()
	fields := library.Fields()
	found, err := bin.FieldOffsets(fields)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		want, inDWARF := found[field]
		got, ok := library.Lookup(module, version, field)
		switch {
		case ok && !inDWARF:
			t.Errorf("%s: offset %d in the table, but not in the DWARF", field, got)
		case ok && got != want:
			t.Errorf("%s: offset %d in the table, %d in the DWARF", field, got, want)
		case !ok && inDWARF && hasModule(field, module):
			t.Errorf("%s: offset %d in the DWARF, but not in the table", field, want)
		}
	}
}

// hasModule reports whether the table has a field for a module.
func hasModule(field, module string) bool {
	for _, r := range library.Ranges(field) {
		if r.Module == module {
			return true
		}
	}
	return false
}

// minor returns the number of the minor Go version of a release such as "1.27.4".
func minor(t *testing.T, release string) int {
	n, err := strconv.Atoi(strings.Split(release, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
