package functions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"main.f", "main.f", true},
		{"main.f", "main.f.func1", false},
		{"main.f", "main.ff", false},
		{"main.f*", "main.f", true},
		{"main.f*", "main.f.func1", true},
		{"*", "main.f", true},
		{"*.f", "example.com/a/b.f", true},
		{"*.f", "example.com/a/b.g", false},
		{"main.(*Store).Get", "main.(*Store).Get", true},
		{"main.(*Store).Get", "main.(*MyStore).Get", false},
		{"main.(*Store).Get", "main.(Store).Get", false},
		{"main.(*Store).*", "main.(*Store).Get", true},
		{"main.(*Store).*", "main.(*Stores).Get", false},
		{"main.(**).Get", "main.(*Store).Get", true},
		{"main.(**).Get", "main.Store.Get", false},
		{"main.*.Get", "main.(*Store).Get", true},
		{"main.*.Get", "main.Store.Get", true},
		{"main.*.Get", "main.Get", false},
		{"main.Map[...]", "main.Map[...]", true},
		{"main.?", "main.f", false},
		{"a*b*a", "aba", true},
		{"a*b*a", "abba", true},
		{"a*a", "a", false},
		{"ab*ba", "aba", false},
		{"a**c", "abc", true},
		{"", "main.f", false},
		{"", "", true},
	} {
		if got := Match(test.pattern, test.name); got != test.want {
			t.Errorf("Match(%q, %q) = %v", test.pattern, test.name, got)
		}
	}
}

// open opens the executable of the target.
func open(t *testing.T, spec testtarget.Spec) *gobin.Binary {
	t.Helper()
	bin, err := gobin.Open(testtarget.Build(t, spec))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bin.Close() })
	return bin
}

func TestFindErrors(t *testing.T) {
	bin := open(t, testtarget.Spec{Program: "smith"})
	for _, test := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"main.sign", "main.missing"}, `no function of the program matches "main.missing"`},
		{[]string{"main.si?n"}, "no function"},
		{[]string{""}, `no function of the program matches ""`},
		{[]string{"main.*"}, "functions match, want at most 64"},
		{[]string{"*"}, "functions match, want at most 64"},
		{[]string{"main.always"}, "calls of main.always are not reported: inlined into all of their callers"},
		{[]string{"main.assembled", "main.forever"}, "calls of main.forever are not reported: never returns; calls of main.assembled are not reported: written in assembler"},
	} {
		list, _, err := Find(bin, test.patterns)
		if !errors.Is(err, ErrSelection) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %d functions, error %v, want %s", test.patterns, len(list), err, test.want)
		}
	}
}

// TestFind finds functions once, and not those that the compiler has generated.
func TestFind(t *testing.T) {
	bin := open(t, testtarget.Spec{Program: "smith", Stripped: true})
	for _, test := range []struct {
		patterns []string
		want     []string
	}{
		{[]string{"main.sign", "main.si*", "main.sign"}, []string{"main.sign"}},
		{[]string{"main.*area"}, []string{"main.square.area"}},
		{[]string{"main.apply[...]"}, []string{"main.apply[...]", "main.apply[...]"}},
		{[]string{"main.(**).get", "net/http.(*conn).serve"}, []string{"main.(*store).get", "net/http.(*conn).serve"}},
	} {
		list, warnings, err := Find(bin, test.patterns)
		var got []string
		for _, f := range list {
			got = append(got, f.Name())
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%q: %q, %v, want %q", test.patterns, got, err, test.want)
		}
		if len(warnings) != 1 || warnings[0].Kind != event.WarnMissing || !strings.Contains(warnings[0].Text, "no debug information") {
			t.Errorf("%q: warnings %v", test.patterns, warnings)
		}
	}
}

func TestFindRelease(t *testing.T) {
	bin := open(t, testtarget.Spec{Program: "tiny", Go: "1.17.13"})
	if _, _, err := Find(bin, []string{"main.main"}); !errors.Is(err, ErrSelection) || !strings.Contains(err.Error(), "since Go 1.19") {
		t.Errorf("%v", err)
	}
}

func TestPackageOf(t *testing.T) {
	for name, want := range map[string]string{
		"main.f": "main", "example.com/a/b.(*T).M": "example.com/a/b", "gopkg.in/yaml%2ev3.Unmarshal": "gopkg.in/yaml.v3", "main.Map[...]": "main",
		"a/b.List[...].Push": "a/b", "nodots": "nodots",
	} {
		if got := packageOf(name); got != want {
			t.Errorf("packageOf(%q) = %q, want %q", name, got, want)
		}
	}
}

// TestAgreement computes where the parameters of all functions of an executable are. Nearly always the size of their area is what the
// compiler has recorded.
func TestAgreement(t *testing.T) {
	bin := open(t, testtarget.Spec{Program: "tiny"})
	signatures, err := bin.Signatures()
	if err != nil {
		t.Fatal(err)
	}
	known, unknown := 0, 0
	for f := range bin.Functions() {
		if bin.Wrapper(f) || bin.Assembler(f) || strings.HasPrefix(f.Name, "type:") || known+unknown == 300 {
			continue
		}
		list, err := signatures.Of(f)
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		if _, _, _, ok := values(bin, f, list); ok {
			known++
		} else if unknown++; unknown < 10 {
			t.Logf("%s: %+v", f.Name, list)
		}
	}
	if known < 100*unknown || known < 250 {
		t.Errorf("the parameters of %d functions are known, those of %d are not", known, unknown)
	}
}
