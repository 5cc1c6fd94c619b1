package pprof

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
)

func at(addr uint64, funcs ...string) Location {
	l := Location{Addr: addr}
	for _, f := range funcs {
		l.Lines = append(l.Lines, event.Frame{Func: f, File: "/src/" + f + ".go", Line: 7})
	}
	return l
}

func TestBuilder(t *testing.T) {
	taken := time.Unix(1234, 567)
	b := NewBuilder(taken, Mapping{Start: 0x1000, End: 0x2000, Offset: 0x200, File: "/bin/app"},
		ValueType{"goroutine", "count"}, ValueType{"wait", "nanoseconds"})
	b.Comment("a remark")
	b.Prefer("wait")
	b.Lasted(3 * time.Second)
	stack := []Location{at(0x1010, "inner", "outer"), at(0x1100, "main")}
	b.Add(stack, nil, 1, 50)
	b.Add([]Location{at(0x1010, "inner", "outer"), at(0x1100, "main")}, nil, 1, 0)
	b.Add(stack, map[string]string{"tenant": "acme", "path": "/"}, 1, 7)
	b.Add([]Location{at(0x9000, "outside")}, nil, 1, 0)
	b.Add(nil, nil, 1, 0)
	if b.Samples() != 4 {
		t.Errorf("%d samples, want 4", b.Samples())
	}

	var doc bytes.Buffer
	if err := b.Write(&doc); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&doc)
	if err != nil {
		t.Fatal(err)
	}
	if p.DefaultSampleType != "wait" || p.DurationNanos != 3e9 || len(p.SampleType) != 2 || p.SampleType[1].Unit != "nanoseconds" ||
		p.PeriodType.Type != "goroutine" || p.Period != 1 || p.TimeNanos != taken.UnixNano() || !slices.Equal(p.Comments, []string{"a remark"}) {
		t.Errorf("header: %v", p)
	}
	if len(p.Function) != 4 || len(p.Location) != 3 || len(p.Mapping) != 1 || p.Mapping[0].File != "/bin/app" {
		t.Errorf("%d functions, %d locations, mappings %v", len(p.Function), len(p.Location), p.Mapping)
	}
	s := p.Sample[0]
	if !slices.Equal(s.Value, []int64{2, 50}) || len(s.Location) != 2 || len(s.Location[0].Line) != 2 ||
		s.Location[0].Line[0].Function.Name != "inner" || s.Location[0].Line[1].Function.Name != "outer" || s.Location[0].Line[0].Line != 7 {
		t.Errorf("first sample: %+v", s)
	}
	if s.Location[0].Mapping == nil || p.Sample[2].Location[0].Mapping != nil {
		t.Error("an address belongs to the mapping if and only if it is inside")
	}
	if got := p.Sample[1].Label["tenant"]; !slices.Equal(got, []string{"acme"}) || p.Sample[1].Value[1] != 7 {
		t.Errorf("labelled sample: %+v", p.Sample[1])
	}
}

func TestBuilderKeepsStacksApart(t *testing.T) {
	b := NewBuilder(time.Unix(1, 0), Mapping{}, ValueType{"goroutine", "count"})
	for range 200 { // more IDs than fit one byte of the key
		n := uint64(b.Samples())
		b.Add([]Location{at(n, "f"), at(n+1, "g")}, nil, 1)
	}
	b.Add([]Location{at(1, "f")}, map[string]string{"a": "b"}, 1)
	b.Add([]Location{at(1, "f")}, map[string]string{"a": "b", "": ""}, 1)
	if b.Samples() != 202 {
		t.Errorf("%d samples, want 202", b.Samples())
	}
	var doc bytes.Buffer
	if err := b.Write(&doc); err != nil {
		t.Fatal(err)
	}
	if _, err := profile.Parse(&doc); err != nil {
		t.Error(err)
	}
}
