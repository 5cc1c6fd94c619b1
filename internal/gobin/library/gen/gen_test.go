package main

import (
	"go/build"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
)

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-latest"}, {"-check", "-latest", "-only", "std"}, {"-only", "example.com/none"}, {"word"}, {"-none"},
	} {
		if o, err := parseOptions(args); err == nil {
			t.Errorf("%q is accepted as %+v", args, o)
		}
	}
	if o, err := parseOptions([]string{"-check", "-only", "std"}); err != nil || !o.check || o.only != "std" {
		t.Errorf("options %+v, %v", o, err)
	}
}

func TestLineDiff(t *testing.T) {
	if diff := lineDiff("a\nb\n", "a\nb\n"); diff != "" {
		t.Errorf("equal tables differ: %q", diff)
	}
	if diff := lineDiff("a\nb\nc\n", "a\nd\nc\n"); diff != "-b\n+d" {
		t.Errorf("diff %q", diff)
	}
	if diff := lineDiff("a\nb\n", "b\na\n"); diff == "" {
		t.Error("tables in another order count as equal")
	}
	if diff := lineDiff("", strings.Repeat("x\n", 2*maxDiff)); strings.Count(diff, "\n") != maxDiff {
		t.Errorf("a diff of %d lines", strings.Count(diff, "\n")+1)
	}
}

// TestWanted checks that the list has each field once.
func TestWanted(t *testing.T) {
	for _, m := range wanted {
		paths := m.paths()
		slices.Sort(paths)
		if n := len(slices.Compact(slices.Clone(paths))); n != len(paths) || n == 0 {
			t.Errorf("module %s: %d of %d fields are different", m.path, n, len(paths))
		}
	}
}

func versions(t *testing.T, names string) []table.Version {
	var list []table.Version
	for name := range strings.FieldsSeq(names) {
		v, err := table.ParseVersion(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

func TestBetween(t *testing.T) {
	for _, test := range []struct{ module, ends, want string }{
		{"m", "v1.2.0 v1.2.3", "v1.2.1 v1.2.2"},
		{"m", "v1.2.5 v1.4.2", "v1.2.6 v1.3.0 v1.4.0 v1.4.1"},
		{"m", "v1.2.5 v1.3.0", "v1.2.6"},
		{"m", "v0.2.5 v1.1.0", "v0.2.6 v0.3.0 v1.0.0"},
		{"m", "v0.0.0-20180101000000-000000000000 v0.0.0-20190101000000-000000000000", ""},
		{"std", "v1.21.0 v1.21.3", "v1.21.1 v1.21.2"},
		{"std", "v1.21.13 v1.22.0", ""},
	} {
		h := history{examiner: examiner{module: module{path: test.module}}}
		ends := versions(t, test.ends)
		if got, want := h.between(ends[0], ends[1]), versions(t, test.want); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", test.ends, got, want)
		}
	}
}

// TestChanges has, for a field, the versions that were examined with their offsets.
func TestChanges(t *testing.T) {
	for _, test := range []struct{ module, examined, want string }{
		{"m", "v1.0.0=8 v1.1.0=8 v1.2.0=8", "v1.0.0=8"},
		{"m", "v1.0.0=8 v1.0.1=16", "v1.0.0=8 v1.0.1-0=- v1.0.1=16"},
		{"m", "v1.0.0=8 v1.0.5=16", "v1.0.0=8 v1.0.1-0=- v1.0.5=16"},
		{"m", "v1.0.5=8 v1.1.0=16", "v1.0.5=8 v1.1.0-0=- v1.1.0=16"},
		{"m", "v1.0.5=8 v1.1.0=- v1.2.0=8", "v1.0.5=8 v1.1.0-0=- v1.2.0=8"},
		{"m", "v1.0.0=- v1.1.0=8", "v1.1.0=8"},
		{"m", "v0.0.0-2018=8 v0.0.0-2019=16", "v0.0.0-2018=8 v0.0.0-2018.0=- v0.0.0-2019=16"},
		{"std", "v1.20.14=8 v1.21.0=16", "v1.20.14=8 v1.21.0=16"},
		{"std", "v1.20.0=8 v1.20.1=16", "v1.20.0=8 v1.20.1=16"},
		{"std", "v1.20.0=8 v1.20.2=16", "v1.20.0=8 v1.20.1=- v1.20.2=16"},
	} {
		text := "module m v0.0.0-2018..v9.0.0\na.B.c "
		parsed, err := table.Parse(text + strings.TrimPrefix(test.want, "v1.0.0=- "))
		if err != nil {
			t.Fatal(err)
		}
		h := history{examiner: examiner{module: module{path: test.module}}}
		for word := range strings.FieldsSeq(test.examined) {
			version, offset, _ := strings.Cut(word, "=")
			p := point{versions(t, version)[0], map[string]uint64{}}
			switch offset {
			case "8":
				p.offsets["a.B.c"] = 8
			case "16":
				p.offsets["a.B.c"] = 16
			}
			h.points = append(h.points, p)
		}
		if got, want := h.changes("a.B.c"), parsed.Modules[0].Fields[0].Changes; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", test.examined, got, want)
		}
	}
}

// library is a module with two dependencies. Types that the layout does not depend on are undefined.
var librarySources = map[string]string{
	"lib/lib.go": `package lib

import (
	"sync"
	"sync/atomic"

	"example.com/dep"
	other "example.com/dep/sub-go"
	"example.com/none"
)

const (
	_ = iota
	one
	two
)

type pair[A, B any] struct {
	a A
	b B
}

type T struct {
	*none.Pointer
	flag     bool
	sync.Mutex
	count    atomic.Int32
	array    [two]uint16
	cell     atomic.Pointer[inner]
	pair     pair[int8, map[none.K]none.V]
	dep      dep.Byte
	other    other.Struct
	m        interface{ none.I }
	last     inner
	value    none.Value
}

type inner struct {
	a byte
	b struct{ c, d int64 }
}

type Alias = T

type Not int
`,
	"lib/windows.go": "//go:build windows\n\npackage lib\n\ntype T struct{ value int }\n",
	"lib/x_arm64.go": "package lib\n\ntype word = uint64\n",
	"lib/x_test.go":  "package lib\n\ntype word = bool\n",
	"dep/dep.go":     "package dep\n\ntype Byte byte\n",
	"dep/sub-go/s.go": `package sub

import "example.com/dep"

type Struct struct{ a, b dep.Byte }
`,
}

// testWorld returns a world with librarySources.
func testWorld(t *testing.T, arch string) *world {
	t.Helper()
	dir := t.TempDir()
	for name, text := range librarySources {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	cmd, err := newGoCommand(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cmd.close)
	goroot, err := cmd.run(nil, "env", "GOROOT")
	if err != nil {
		t.Fatal(err)
	}
	cmd.downloads["example.com/dep@v1.0.0"] = &sources{path: "example.com/dep", dir: filepath.Join(dir, "dep")}
	r := release{goroot: strings.TrimSpace(string(goroot)), toolTags: build.Default.ToolTags, releaseTags: build.Default.ReleaseTags}
	main := &sources{path: "example.com/lib", dir: filepath.Join(dir, "lib"), requires: map[string]string{"example.com/dep": "v1.0.0"}}
	return newWorld(cmd, newParsedFiles(), r, arch, main)
}

func TestOffsets(t *testing.T) {
	for _, arch := range arches {
		w := testWorld(t, arch)
		got, err := w.offsets([]wantedStruct{
			{"example.com/lib", "T", "Pointer flag Mutex count array cell pair.b dep other.b m last.b.d none last.none"},
			{"example.com/lib", "Alias", "flag"},
			{"example.com/lib", "Not", "flag"},
			{"example.com/lib", "None", "flag"},
			{"example.com/lib/none", "T", "flag"},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]uint64{"Pointer": 0, "flag": 8, "Mutex": 12, "count": 20, "array": 24, "cell": 32, "pair.b": 48, "dep": 56,
			"other.b": 58, "m": 64, "last.b.d": 96}
		for field := range want {
			if offset := got["example.com/lib.T."+field]; offset != want[field] {
				t.Errorf("%s: %s has the offset %d, want %d", arch, field, offset, want[field])
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: fields %v", arch, slices.Sorted(maps.Keys(got)))
		}
		if !w.depends {
			t.Error("the dependency is unknown")
		}
	}
}

// TestOffsetsUnknown wants a field behind one whose type is unknown.
func TestOffsetsUnknown(t *testing.T) {
	_, err := testWorld(t, "amd64").offsets([]wantedStruct{{"example.com/lib", "T", "flag value"}})
	if err == nil || !strings.Contains(err.Error(), "package example.com/none is in no module that example.com/lib requires") {
		t.Errorf("error %v", err)
	}
}

func TestDifferences(t *testing.T) {
	a := map[string]uint64{"same": 1, "moved": 2, "gone": 3}
	b := map[string]uint64{"same": 1, "moved": 3, "new": 3}
	if got := differences(a, b); !slices.Equal(got, []string{"gone", "moved", "new"}) {
		t.Errorf("differences %v", got)
	}
}
