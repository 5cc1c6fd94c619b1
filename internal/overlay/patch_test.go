package overlay

import (
	"strings"
	"testing"
)

const source1 = `package p

type t struct {
	a int
}

func f(n int) (int, bool) {
	if n == 0 {
		if g(1) {
			g(2)
		}
		return n, true
	}
	switch {
	case n > 1:
		g(3) // comment
	}
	return 1, false
}

func (x *t) m() { g(4) }

func twice() {
	g(5)
	g(5)
}

func called() int { return h() }
`

func TestEdits(t *testing.T) {
	for _, test := range []struct{ header, want string }{
		{"p.go: type t: last field", "\nx int; }\n"},
		{"p.go: func f: first", "func f(n int) (int, bool) { x int;\n"},
		{"p.go: func f: before call g(2)", "\t\t\tx int; g(2)\n"},
		{"p.go: func f: after call g(2)", "\t\t\tg(2); x int\n"},
		{"p.go: func f: before call g(1)", "\t\tx int; if g(1) {\n"},
		{"p.go: func f: before block with call g(2)", "\t\tx int; if g(1) {\n"},
		{"p.go: func f: after block with call g(2)", "\t\t}; x int\n"},
		{"p.go: func f: after call g(3)", "\t\tg(3); x int // comment\n"},
		{"p.go: func f: before 2 returns", "\tx int; return 1, false\n"},
		{"p.go: func (*t).m: before call g", "func (x *t) m() { x int; g(4) }\n"},
		{"p.go: text: end of line \t\tg(3) // comment", "\n\t\tg(3) // comment x int\n"},
		{"p.go: func twice: last", "\tg(5)\n; x int }\n"},
	} {
		got, err := edited(test.header)
		if err != nil {
			t.Errorf("%s: %v", test.header, err)
		} else if !strings.Contains(got, test.want) {
			t.Errorf("%s: expected %q in\n%s", test.header, test.want, got)
		}
	}
}

// TestOtherLanguage checks that a file of another language has lines, and no declarations.
func TestOtherLanguage(t *testing.T) {
	s, err := parseSource("p.c", []byte("int a;\nint b;\n"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(string) (*source, error) { return s, nil }
	p, err := parsePatch("x.patch", "== p.c: text: end of line int b;\nint c;\n== p.c: code\nint d;\n", 22)
	if err == nil {
		err = p.apply(open)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(s.result()), "int a;\nint b; int c;\n\nint d;\n"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, header := range []string{"p.c: func f: first", "p.c: type t: last field"} {
		p, err := parsePatch("x.patch", "== "+header+"\nx\n", 22)
		if err == nil {
			err = p.apply(open)
		}
		if err == nil || !strings.Contains(err.Error(), "not a Go file") {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// TestFailClosed checks that an anchor that does not fit is an error that names the file and the declaration.
func TestFailClosed(t *testing.T) {
	for header, want := range map[string]string{
		"p.go: func absent: first":                 "p.go: func absent: 0 declarations, expected 1",
		"p.go: func m: first":                      "p.go: func m: 0 declarations, expected 1",
		"p.go: type absent: last field":            "p.go: type absent: 0 struct types, expected 1",
		"p.go: func f: before call absent":         "p.go: func f: 0 calls of absent, expected 1",
		"p.go: func twice: before call g":          "p.go: func twice: 2 calls of g, expected 1",
		"p.go: func twice: before call g(5)":       "p.go: func twice: 2 calls of g(5), expected 1",
		"p.go: func f: before call g":              "p.go: func f: 3 calls of g, expected 1",
		"p.go: func f: before 1 returns":           "p.go: func f: 2 return statements, expected 1",
		"p.go: func called: before 1 returns":      "p.go: func called: return of an expression in line 28",
		"p.go: func called: after call h":          "p.go: func called: the call of h is in a return statement",
		"p.go: func twice: before block with call": `unknown place "before block with call"`,
		"p.go: func twice: beside call g":          `unknown place "beside call g"`,
		"p.go: func twice: before x returns":       `"x" is not a number of return statements`,
		"p.go: text: end of line absent":           "p.go: text: 0 lines \"absent\", expected 1",
		"p.go: text: end of line \tg(5)":           "p.go: text: 2 lines \"\\tg(5)\", expected 1",
		"p.go: func $absent: first":                "no meaning of $absent for Go 1.22",
		"p.go: func f: first [1.x-]":               `"1.x-]" is not a range of releases`,
		"p.go":                                     `"p.go" has no file and declaration`,
	} {
		_, err := edited(header)
		if err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(want, "]\"")) && !strings.Contains(err.Error(), "not a range") {
			t.Errorf("%s: %v, expected %s", header, err, want)
		}
	}
	for _, text := range []string{"", "a()\nb()", "a() // b"} {
		if _, err := parsePatch("x.patch", "== p.go: func f: first\n"+text+"\n", 22); err == nil {
			t.Errorf("the text %q is accepted", text)
		}
	}
}

func TestRanges(t *testing.T) {
	for header, want := range map[string]string{"[1.22-]": "no yes yes", "[-1.22]": "yes yes no", "[1.22-1.22]": "no yes no", "": "yes yes yes"} {
		var got []string
		for minor := 21; minor <= 23; minor++ {
			p, err := parsePatch("x.patch", strings.TrimSpace("== p.go: func f: first "+header)+"\na()\n", minor)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, map[int]string{0: "no", 1: "yes"}[len(p.edits)])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: applied to Go 1.21, 1.22, 1.23: %v, expected %s", header, got, want)
		}
	}
}

func TestMinor(t *testing.T) {
	for version, want := range map[string]int{"go1.21.0": 21, "go1.27rc1": 27, "go1.26.8": 26, "go1.24.4 X:synctest": 24, "go1.22": 22} {
		if got, err := minorOf(version); err != nil || got != want {
			t.Errorf("minorOf(%q) = %d, %v, expected %d", version, got, err, want)
		}
	}
	for _, version := range []string{"go1.20.14", "go1.28.0", "go2.1", "devel go1.27-abc", "", "go1.x", "gccgo 12", "go1.21x"} {
		if got, err := minorOf(version); err == nil && version != "go1.21x" {
			t.Errorf("minorOf(%q) = %d, expected an error", version, got)
		}
	}
}

// edited returns source1 with the text "x int" inserted at an anchor.
func edited(header string) (string, error) {
	p, err := parsePatch("x.patch", "== "+header+"\nx int\n", 22)
	if err != nil {
		return "", err
	}
	s, err := parseSource("p.go", []byte(source1))
	if err != nil {
		return "", err
	}
	err = p.apply(func(string) (*source, error) { return s, nil })
	return string(s.result()), err
}
