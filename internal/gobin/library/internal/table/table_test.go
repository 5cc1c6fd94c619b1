package table

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"
)

const small = `# a comment

module std v1.19.0..v1.27.4
net/http.Request.Method v1.19.0=0
net/http.Request.pat v1.22.0=240 v1.23.0=256 v1.26.0=- v1.27.1=8

module example.com/lib v0.0.0-20180817151627-c66870c02cf8..v2.0.0
example.com/lib.T.a.b v1.0.0=24
`

func TestParse(t *testing.T) {
	parsed, err := Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	if got := parsed.Write("a comment"); got != small {
		t.Errorf("parsed and written:\n%s\nwant:\n%s", got, small)
	}
	if m := parsed.Module("example.com/lib"); m == nil || m.Fields[0].Changes[0].Offset != 24 {
		t.Errorf("module example.com/lib is %+v", m)
	}
	if m := parsed.Module("example.com"); m != nil {
		t.Errorf("module example.com is %+v", m)
	}
}

func TestParseErrors(t *testing.T) {
	const module = "module m v1.0.0..v1.9.0\n"
	for text, want := range map[string]string{
		"a.B.c v1.0.0=0":                             "line 1: a field without a module",
		"module m":                                   "line 1: a module requires",
		"module m v1.0.0":                            "not a range of versions",
		"module m v1.0.0..v1":                        `"v1" is not a version`,
		"module m v1.0.0..v0.9.0":                    "v1.0.0 is newer than v0.9.0",
		module + "\n" + module:                       "line 3: module m is not in order",
		module + "module std v1.19.0..v1.27.0":       "module std is not in order",
		module + "a.B v1.0.0=0":                      `"a.B" is not the path of a field`,
		module + "a..B.c v1.0.0=0":                   "not the path of a field",
		module + "a.B.c":                             "a.B.c has no offset",
		module + "a.B.c v1.0.0":                      `"v1.0.0" is not a version and an offset`,
		module + "a.B.c v1.0=0":                      `"v1.0" is not a version`,
		module + "a.B.c v1.0.0=x":                    `"x" is not an offset`,
		module + "a.B.c v1.0.0=08":                   "not an offset",
		module + "a.B.c v1.0.0=9999999999":           "not an offset",
		module + "a.B.c v1.0.0=-":                    "the first offset is unknown",
		module + "a.B.c v1.0.0=0 v1.0.0=8":           "not in order",
		module + "a.B.c v1.0.0=0 v1.1.0=0":           "not a change",
		module + "a.B.c v1.0.0=0  v1.1.0=8":          "not a version and an offset",
		module + "a.B.c v0.9.0=0":                    "not one of the versions that were examined, v1.0.0 to v1.9.0",
		module + "a.B.c v1.0.0=0 v1.9.1=8":           "not one of the versions",
		module + "a.B.d v1.0.0=0\na.B.c v1.0.0=8":    "line 3: a.B.c is not in order",
		module + "a.B.c v1.0.0=0\na.B.c v1.0.0=8":    "not in order",
		module + "a.B.c v1.0.0=0 v1.1.0=-\tv1.2.0=8": "not an offset",
	} {
		_, err := Parse(text)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAt(t *testing.T) {
	parsed, err := Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]map[string]uint64{
		"v1.18.0": {},
		"v1.19.0": {"net/http.Request.Method": 0},
		"v1.22.5": {"net/http.Request.Method": 0, "net/http.Request.pat": 240},
		"v1.26.0": {"net/http.Request.Method": 0},
		"v1.27.1": {"net/http.Request.Method": 0, "net/http.Request.pat": 8},
	} {
		v, err := ParseVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.Module(Std).At(v); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}

// TestVersionOrder has versions in ascending order.
func TestVersionOrder(t *testing.T) {
	ordered := []string{"v0.0.0-20180817151627-c66870c02cf8", "v0.0.0-20180817151627-c66870c02cf8.0", "v0.0.0-20190101000000-000000000000",
		"v1.0.0-0", "v1.0.0-2", "v1.0.0-10", "v1.0.0-RC1", "v1.0.0-rc", "v1.0.0-rc.1", "v1.0.0-rc.1.0", "v1.0.0", "v1.0.1-0", "v1.0.1",
		"v1.0.10", "v1.2.0", "v1.10.0", "v2.0.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			v, errV := ParseVersion(a)
			w, errW := ParseVersion(b)
			if errV != nil || errW != nil {
				t.Fatal(errV, errW)
			}
			if got, want := sign(v.Compare(w)), sign(i-j); got != want || v.String() != a {
				t.Errorf("%v compared with %v: %d, want %d", v, w, got, want)
			}
		}
	}
}

func sign(n int) int { return min(max(n, -1), 1) }

func TestParseVersion(t *testing.T) {
	for _, s := range []string{"", "v", "1.2.3", "v1", "v1.2", "v1.2.3.4", "v1.2.x", "v1.02.3", "v1.2.-3", "v1.2.3-", "v1.2.3-a..b", "v1.2.3-é",
		"v1.2.9999999999", "(devel)"} {
		if v, err := ParseVersion(s); err == nil {
			t.Errorf("%q is parsed as %v", s, v)
		}
	}
	if v, err := ParseVersion("v2.1.0+incompatible"); err != nil || v.String() != "v2.1.0" || v.NextMinor().String() != "v2.2.0" {
		t.Errorf("v2.1.0+incompatible is %v, %v", v, err)
	}
}

// FuzzParse checks that a table that is parsed can be written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add("module m v1.0.0..v1.9.0\na.B.c v1.0.0=0 v1.2.0-0=- v1.2.0=16")
	if text, err := os.ReadFile("../../table.txt"); err == nil {
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v does not wrap ErrFormat", err)
			}
			return
		}
		written := parsed.Write("")
		again, err := Parse(written)
		if err != nil || again.Write("") != written {
			t.Fatalf("written as %q: %v", written, err)
		}
	})
}
