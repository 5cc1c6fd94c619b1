package push

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// heapProfile returns a profile with two types of samples, inlined frames, labels and a mapping.
func heapProfile() *profile.Profile {
	m := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, Offset: 0x1000, File: "/app/shop", BuildID: "abcd"}
	var functions []*profile.Function
	for i, name := range []string{"main.main", "main.inlined", "main.leaf \xff"} {
		functions = append(functions, &profile.Function{ID: uint64(i + 1), Name: name, SystemName: name, Filename: "/src/main.go", StartLine: int64(i)})
	}
	locations := []*profile.Location{
		{ID: 1, Mapping: m, Address: 0x401000, Line: []profile.Line{{Function: functions[0], Line: 10}}},
		{ID: 2, Mapping: m, Address: 0x402000, Line: []profile.Line{{Function: functions[1], Line: 20, Column: 3}, {Function: functions[0], Line: 11}}},
		{ID: 3, Line: []profile.Line{{Function: functions[2], Line: 30}}},
	}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_space", Unit: "bytes"}, {Type: "inuse_space", Unit: "bytes"}},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 524288, TimeNanos: now.UnixNano(), DurationNanos: 30e9,
		Mapping: []*profile.Mapping{m}, Location: locations, Function: functions,
		Sample: []*profile.Sample{
			{Location: []*profile.Location{locations[1], locations[0]}, Value: []int64{4096, 1024}, NumLabel: map[string][]int64{"bytes": {64}}, NumUnit: map[string][]string{"bytes": {"bytes"}}},
			{Location: []*profile.Location{locations[2], locations[0]}, Value: []int64{100, 0}, Label: map[string][]string{"request": {"a"}}},
			{Location: []*profile.Location{locations[2], locations[0]}, Value: []int64{7, 7}},
		},
	}
}

// stacksOf returns the sums of a type of samples by stack, labels, lines and mapping, as text.
func stacksOf(p *profile.Profile, kind int) map[string]int64 {
	sums := map[string]int64{}
	for _, s := range p.Sample {
		var b strings.Builder
		for _, l := range s.Location {
			m := profile.Mapping{}
			if l.Mapping != nil {
				m = *l.Mapping
			}
			fmt.Fprintf(&b, "%#x in %s %#x-%#x+%#x %s:", l.Address, m.File, m.Start, m.Limit, m.Offset, m.BuildID)
			for _, line := range l.Line {
				fmt.Fprintf(&b, " %s (%s) %s:%d:%d from %d", clean(line.Function.Name, maxText), clean(line.Function.SystemName, maxText), line.Function.Filename, line.Line, line.Column,
					line.Function.StartLine)
			}
			b.WriteByte('\n')
		}
		var labels []string
		for k, list := range s.Label {
			for _, v := range list {
				labels = append(labels, k+"="+v)
			}
		}
		for k, list := range s.NumLabel {
			for i, v := range list {
				labels = append(labels, fmt.Sprintf("%s=%d %s", k, v, s.NumUnit[k][i]))
			}
		}
		slices.Sort(labels)
		fmt.Fprint(&b, labels)
		if s.Value[kind] != 0 {
			sums[b.String()] += s.Value[kind]
		}
	}
	return sums
}

// stacksOfOTLP is stacksOf for a profile of OTLP.
func stacksOfOTLP(t *testing.T, p pprofile.Profile, d pprofile.ProfilesDictionary) map[string]int64 {
	t.Helper()
	text := func(i int32) string { return d.StringTable().At(int(i)) }
	sums := map[string]int64{}
	for _, s := range p.Samples().All() {
		var b strings.Builder
		for _, index := range d.StackTable().At(int(s.StackIndex())).LocationIndices().All() {
			l := d.LocationTable().At(int(index))
			m := d.MappingTable().At(int(l.MappingIndex()))
			build := ""
			for _, i := range m.AttributeIndices().All() {
				build = d.AttributeTable().At(int(i)).Value().Str()
			}
			fmt.Fprintf(&b, "%#x in %s %#x-%#x+%#x %s:", l.Address(), text(m.FilenameStrindex()), m.MemoryStart(), m.MemoryLimit(), m.FileOffset(), build)
			for _, line := range l.Lines().All() {
				f := d.FunctionTable().At(int(line.FunctionIndex()))
				fmt.Fprintf(&b, " %s (%s) %s:%d:%d from %d", text(f.NameStrindex()), text(f.SystemNameStrindex()), text(f.FilenameStrindex()), line.Line(), line.Column(), f.StartLine())
			}
			b.WriteByte('\n')
			if frame := d.AttributeTable().At(int(l.AttributeIndices().At(0))); text(frame.KeyStrindex()) != "profile.frame.type" || frame.Value().Str() != "go" {
				t.Error("the type of a frame is not go")
			}
		}
		var labels []string
		for _, i := range s.AttributeIndices().All() {
			a := d.AttributeTable().At(int(i))
			value := a.Value().AsString()
			if unit := text(a.UnitStrindex()); unit != "" {
				value += " " + unit
			}
			labels = append(labels, text(a.KeyStrindex())+"="+value)
		}
		slices.Sort(labels)
		fmt.Fprint(&b, labels)
		sums[b.String()] += s.Values().At(0)
	}
	return sums
}

// checkProfiles compares profiles of OTLP with the one of pprof that they were made of.
func checkProfiles(t *testing.T, got pprofile.Profiles, want *profile.Profile, wantResource map[string]string) {
	t.Helper()
	rp := got.ResourceProfiles().At(0)
	attrs := map[string]string{}
	for k, v := range rp.Resource().Attributes().All() {
		attrs[k] = v.AsString()
	}
	checkResource(t, attrs, wantResource)
	scope := rp.ScopeProfiles().At(0)
	if scope.Scope().Name() != scopeName || scope.Scope().Version() != "v1.2.3" || scope.Profiles().Len() != len(want.SampleType) {
		t.Fatalf("%d profiles of %s", scope.Profiles().Len(), scope.Scope().Name())
	}
	d := got.Dictionary()
	text := func(i int32) string { return d.StringTable().At(int(i)) }
	for i, kind := range want.SampleType {
		p := scope.Profiles().At(i)
		if text(p.SampleType().TypeStrindex()) != kind.Type || text(p.SampleType().UnitStrindex()) != kind.Unit || text(p.PeriodType().TypeStrindex()) != want.PeriodType.Type ||
			p.Period() != want.Period || int64(p.Time()) != want.TimeNanos || int64(p.DurationNano()) != want.DurationNanos || p.ProfileID().IsEmpty() {
			t.Errorf("profile %d: %v", i, p)
		}
		if got, want := stacksOfOTLP(t, p, d), stacksOf(want, i); !maps.Equal(got, want) {
			t.Errorf("%s: got\n%v\nwant\n%v", kind.Type, got, want)
		}
	}
}

// TestConvert converts profiles and compares all their samples, also after encoding and decoding.
func TestConvert(t *testing.T) {
	attrs := []attribute.KeyValue{attribute.String("service.name", "shop"), attribute.Int("process.pid", 7)}
	want := map[string]string{"service.name": "shop", "process.pid": "7"}
	for range 2 {
		p := heapProfile()
		converted := otlpProfiles(p, resource.NewSchemaless(attrs...), newScope("v1.2.3"))
		checkProfiles(t, converted, p, want)
		encoded, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(converted)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(encoded)
		if err != nil {
			t.Fatal(err)
		}
		checkProfiles(t, decoded, p, want)
	}
}

// TestConvertTables requires that what samples share is in the tables once.
func TestConvertTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	p := heapProfile()
	for range 1000 {
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{rng.Int64N(math.MaxInt32), 1}, Location: []*profile.Location{p.Location[rng.IntN(3)], p.Location[0]}})
	}
	d := otlpProfiles(p, resource.Empty(), newScope("")).Dictionary()
	if d.LocationTable().Len() != 4 || d.FunctionTable().Len() != 4 || d.MappingTable().Len() != 2 || d.StackTable().Len() != 4 || d.StringTable().At(0) != "" {
		t.Errorf("%d locations, %d functions, %d mappings, %d stacks", d.LocationTable().Len(), d.FunctionTable().Len(), d.MappingTable().Len(), d.StackTable().Len())
	}
	seen := map[string]bool{}
	for _, s := range d.StringTable().All() {
		if seen[s] {
			t.Errorf("%q twice", s)
		}
		seen[s] = true
	}
}

func parsed(t *testing.T, data []byte) *profile.Profile {
	t.Helper()
	p, err := profile.ParseData(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
