package library

import (
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
)

func TestTable(t *testing.T) {
	parsed, err := table.Parse(tableText)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range parsed.Modules {
		if len(m.Fields) == 0 {
			t.Errorf("module %s has no fields", m.Path)
		}
	}
	if !slices.IsSorted(Fields()) || !slices.Contains(Fields(), "net/http.Request.URL") {
		t.Errorf("fields %v", Fields())
	}
}

func TestRangesOf(t *testing.T) {
	parsed, err := table.Parse(`module std v1.19.0..v1.27.4
net/http.T.a v1.22.0=240 v1.23.0=256 v1.26.0=- v1.27.1=8
module a.org/m v0.5.0..v0.9.1
a.org/m/p.T.x v0.5.0=8 v0.7.0=-
module a.org/m/p v0.7.0..v1.4.2
a.org/m/p.T.x v0.7.0=8 v1.2.0-0=- v1.2.0=16
`)
	if err != nil {
		t.Fatal(err)
	}
	got := rangesOf(parsed)
	for field, want := range map[string][]Range{
		"net/http.T.a": {{"std", "v1.22.0", "v1.23.0", 240}, {"std", "v1.23.0", "v1.26.0", 256}, {"std", "v1.27.1", "v1.28.0", 8}},
		"a.org/m/p.T.x": {{"a.org/m", "v0.5.0", "v0.7.0", 8}, {"a.org/m/p", "v0.7.0", "v1.2.0-0", 8},
			{"a.org/m/p", "v1.2.0", "v1.5.0", 16}},
	} {
		if !slices.Equal(got[field], want) {
			t.Errorf("%s: %v, want %v", field, got[field], want)
		}
	}
	if len(got) != 2 {
		t.Errorf("fields %v", got)
	}
}

func TestLookup(t *testing.T) {
	for _, test := range []struct {
		module, version, field string
		offset                 uint64
		ok                     bool
	}{
		{"std", "v1.19.0", "net/http.Request.URL", 16, true},
		{"std", "v1.27.99", "net/http.Request.URL", 16, true},
		{"std", "v1.28.0", "net/http.Request.URL", 0, false},
		{"std", "v1.18.10", "net/http.Request.URL", 0, false},
		{"std", "v1.21.13", "net/http.Request.pat", 0, false},
		{"std", "v1.22.0", "net/http.Request.pat", 248, true},
		{"std", "v1.23.0", "net/http.Request.pat", 264, true},
		{"std", "v1.26.12", "net/http.http2stream.id", 8, true},
		{"std", "v1.27.0", "net/http.http2stream.id", 0, false},
		{"std", "v1.27.0", "net/http/internal/http2.stream.id", 8, true},
		{"std", "1.22.0", "net/http.Request.URL", 0, false},
		{"example.com/none", "v1.22.0", "net/http.Request.URL", 0, false},
		{"std", "v1.22.0", "net/http.Request.none", 0, false},
	} {
		offset, ok := Lookup(test.module, test.version, test.field)
		if offset != test.offset || ok != test.ok {
			t.Errorf("%s in %s %s: %d, %v, want %d, %v", test.field, test.module, test.version, offset, ok, test.offset, test.ok)
		}
	}
}

// TestRanges checks that the result is the caller's, and that ranges of one module are in order and do not overlap.
func TestRanges(t *testing.T) {
	if got := Ranges("net/http.Request.none"); len(got) != 0 {
		t.Errorf("the ranges of no field are %v", got)
	}
	Ranges("net/http.Request.URL")[0].Offset = 1
	if got := Ranges("net/http.Request.URL"); !slices.Equal(got, []Range{{"std", "v1.19.0", "v1.28.0", 16}}) {
		t.Errorf("net/http.Request.URL: %v", got)
	}
	for _, field := range Fields() {
		ranges := Ranges(field)
		if len(ranges) == 0 {
			t.Errorf("%s has no ranges", field)
		}
		for i, r := range ranges {
			since, errSince := table.ParseVersion(r.Since)
			until, errUntil := table.ParseVersion(r.Until)
			if errSince != nil || errUntil != nil || since.Compare(until) >= 0 {
				t.Errorf("%s: range %v", field, r)
			}
			if i > 0 && ranges[i-1].Module == r.Module && r.contains(mustParse(t, ranges[i-1].Since)) {
				t.Errorf("%s: %v overlaps %v", field, r, ranges[i-1])
			}
		}
	}
}

func mustParse(t *testing.T, version string) table.Version {
	v, err := table.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
