package flamegraph

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func folded(t *testing.T, p, old *profile.Profile) string {
	t.Helper()
	var b strings.Builder
	if err := WriteFolded(&b, p, old); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFolded(t *testing.T) {
	b := newProfile("time/nanoseconds", "n/count")
	b.add([]string{"main.main", "main.f", "<main.g"}, 10, 1)
	b.add([]string{"main.main", "main.f", "main.g"}, 5, 1).Label = map[string][]string{"a": {"b"}}
	b.add([]string{"main.main", "a;b\nc\\d\x1be\u202ef\xff"}, 2, 1)
	b.add([]string{"main.main", "a;b\nc\\d"}, 0, 1)
	b.add(nil, 1, 1)
	want := `(no stack) 1
main.main;a\x3bb\nc\\d\x1be\u202ef\xff 2
main.main;main.f;main.g 15
`
	if got := folded(t, b.p, nil); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	b.p.DefaultSampleType = "n"
	if got := folded(t, b.p, nil); !strings.Contains(got, "main.main;main.f;main.g 2\n") {
		t.Errorf("default sample type n:\n%s", got)
	}
	b.p.DefaultSampleType = "" // the last one
	if got := folded(t, b.p, nil); !strings.Contains(got, "main.main;main.f;main.g 2\n") {
		t.Errorf("no default sample type:\n%s", got)
	}
}

func TestFoldedDifference(t *testing.T) {
	now, old := newProfile("n/count", "d/count"), newProfile("n/count", "d/count")
	old.p.DefaultSampleType = "d" // that of the new profile counts
	now.add([]string{"main", "both"}, 8, 5)
	now.add([]string{"main", "new"}, 1, 5)
	old.add([]string{"main", "both"}, 3, 5)
	old.add([]string{"main", "gone"}, 20, 5)
	want := "main;both 3 8\nmain;gone 20 0\nmain;new 0 1\n"
	if got := folded(t, now.p, old.p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzEscapeFolded holds that different names stay different, and that no name contains a separator.
func FuzzEscapeFolded(f *testing.F) {
	f.Add("a;b", "a\\x3bb")
	f.Add("\xff", "\uFFFD")
	f.Add("\n", "\\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		ea, eb := escapeFolded(a), escapeFolded(b)
		if strings.ContainsAny(ea, ";\n\r") || a != b && ea == eb {
			t.Errorf("%q and %q become %q and %q", a, b, ea, eb)
		}
	})
}
