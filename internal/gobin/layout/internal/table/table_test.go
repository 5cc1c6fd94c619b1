package table

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func release(t *testing.T, s string) Release {
	t.Helper()
	r, rest, err := ParseRelease(s)
	if err != nil || rest != "" {
		t.Fatalf("%s: %v, %q", s, err, rest)
	}
	return r
}

func TestRelease(t *testing.T) {
	for s, want := range map[string]Release{"1.12": {12, 0}, "1.20": {20, 0}, "1.21.0": {21, 0}, "1.22.12": {22, 12}} {
		if r := release(t, s); r != want || r.String() != s {
			t.Errorf("%s is %+v, spelled %v", s, r, r)
		}
	}
	for s, rest := range map[string]string{"1.22rc1": "rc1", "1.22.3 X:y": " X:y", "1.22.": ".", "1.22.x": ".x", "1.21": ""} {
		if _, got, err := ParseRelease(s); err != nil || got != rest {
			t.Errorf("%s: rest %q, %v; want %q", s, got, err, rest)
		}
	}
	for _, s := range []string{"", "1", "1.", "2.3", "1.x", "1.99999"} {
		if r, _, err := ParseRelease(s); err == nil {
			t.Errorf("%q is %v", s, r)
		}
	}
	if (Release{9, 9}).Compare(Release{10, 0}) >= 0 || (Release{10, 2}).Compare(Release{10, 10}) >= 0 {
		t.Error("releases are compared as text")
	}
}

func TestCutPath(t *testing.T) {
	for path, want := range map[string][2]string{
		"runtime.g.sched.sp":                   {"runtime.g", "sched.sp"},
		"runtime/pprof.labelMap.LabelSet.list": {"runtime/pprof.labelMap", "LabelSet.list"},
		"a.b/c.d.e":                            {"a.b/c.d", "e"},
	} {
		if s, f, ok := CutPath(path); !ok || s != want[0] || f != want[1] {
			t.Errorf("%s: %q, %q, %v", path, s, f, ok)
		}
	}
	for _, path := range []string{"", "runtime", "runtime.g", "a/b", "a/b.c"} {
		if _, f, ok := CutPath(path); ok {
			t.Errorf("%q has the field %q", path, f)
		}
	}
}

// snapshot returns one with a struct of the given fields and the same in constants.
func snapshot(size uint32, fields map[string]Field, consts map[string]int64, texts ...string) *Snapshot {
	s := NewSnapshot()
	if size > 0 {
		s.Structs["runtime.g"] = Struct{Size: size, Fields: fields}
	}
	s.Consts = consts
	if len(texts) > 0 {
		s.Strings["runtime.texts"] = texts
	}
	return s
}

// history is a table in which everything happens: fields move, go and come back, architectures differ, a struct ends.
func history() []Build {
	both := func(r Release, amd64, arm64 *Snapshot) Build {
		return Build{Release: r, Arches: map[string]*Snapshot{"amd64": amd64, "arm64": arm64}}
	}
	f := func(goid, extra uint32) map[string]Field {
		m := map[string]Field{"goid": {goid, 8}, "size": {0, 4}}
		if extra > 0 {
			m["extra"] = Field{extra, 2}
		}
		return m
	}
	c := func(v int64) map[string]int64 { return map[string]int64{"runtime._Gwaiting": 4, "runtime.x": v} }
	first := snapshot(16, f(8, 0), c(-1), "", "select", "two words", "quote \" and = sign")
	return []Build{
		both(Release{12, 0}, first, first),
		both(Release{12, 17}, first, first),
		both(Release{13, 0}, snapshot(24, f(8, 16), c(-1), "", "select"), snapshot(32, f(8, 24), c(7), "", "select")),
		both(Release{14, 0}, snapshot(16, f(8, 0), c(1)), snapshot(16, f(8, 0), c(1))),
		both(Release{21, 0}, snapshot(0, nil, map[string]int64{}), snapshot(0, nil, map[string]int64{})),
		both(Release{22, 3}, snapshot(24, f(0, 16), c(2), "new"), snapshot(24, f(0, 16), c(2), "new")),
	}
}

func TestRoundTrip(t *testing.T) {
	builds := history()
	text, err := Open(string(Write("A comment\nof two lines", builds)))
	if err != nil {
		t.Fatal(err)
	}
	if len(text.Releases()) != len(builds) {
		t.Errorf("releases %v", text.Releases())
	}
	for _, b := range builds {
		for arch, want := range b.Arches {
			got, err := text.Snapshot(b.Release, arch)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v/%s: got %+v, want %+v", b.Release, arch, got, want)
			}
		}
	}
	reversed := history()
	for i := range reversed[:len(reversed)/2] {
		j := len(reversed) - 1 - i
		reversed[i], reversed[j] = reversed[j], reversed[i]
	}
	if string(Write("x", builds)) != string(Write("x", reversed)) {
		t.Error("the order of the builds matters")
	}
}

func TestSame(t *testing.T) {
	text, err := Open(string(Write("x", history())))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, to string
		want     bool
	}{{"1.12", "1.12.17", true}, {"1.12", "1.12", true}, {"1.12.17", "1.13", false}, {"1.12", "1.22.3", false}, {"1.21.0", "1.22.3", false}} {
		if got, err := text.Same(release(t, test.from), release(t, test.to), "arm64"); err != nil || got != test.want {
			t.Errorf("%s and %s are the same: %v, %v", test.from, test.to, got, err)
		}
	}
}

func TestUnchangedReleaseAddsOneWord(t *testing.T) {
	builds := history()
	before := string(Write("x", builds))
	last := builds[len(builds)-1]
	after := string(Write("x", append(builds, Build{Release: Release{22, 4}, Arches: last.Arches})))
	if strings.Replace(after, " 1.22.4\n", "\n", 1) != before {
		t.Errorf("a release that changes nothing makes\n%s\nof\n%s", after, before)
	}
}

func TestMalformed(t *testing.T) {
	for _, head := range []string{"", "# only a comment\n", "struct x amd64\n", "releases 1.x\n", "releases 1.13 1.12\n", "releases 1.12rc1\n"} {
		if _, err := Open(head); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v, want ErrFormat", head, err)
		}
	}
	for _, body := range []string{
		"thing x amd64\n", "struct\n", "strings\n", "struct runtime.g amd64\ngoid\n", "struct runtime.g amd64\ngoid 1.12\n",
		"struct runtime.g amd64\ngoid 1.12=8\n", "struct runtime.g amd64\ngoid 1.12=x:8\n", "struct runtime.g amd64\n(size) 1.12=x\n",
		"struct runtime.g amd64\ngoid 1.y=8:8\n", "consts amd64\nruntime.x 1.12=y\n", "strings s amd64\n\"before since\"\n",
		"strings s amd64\nsince 1.12\nno quotes\n", "strings s amd64\nsince then\n", "struct runtime.g amd64\ngoid 1.12=99999999999:8\n",
	} {
		text, err := Open("releases 1.12\n\n" + body)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := text.Snapshot(Release{12, 0}, "amd64"); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v; want ErrFormat", body, s, err)
		}
	}
}
