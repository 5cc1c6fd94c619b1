package push

import (
	"math/rand/v2"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
)

// otlpProfiles converts a profile of pprof. A profile of OTLP has values of one type, so there is one for each type of samples, with the
// samples whose value is not 0. Functions, locations and stacks are in tables that they share.
func otlpProfiles(p *profile.Profile, res *resource.Resource, scope instrumentation.Scope) pprofile.Profiles {
	out := pprofile.NewProfiles()
	c := newConverter(p, out.Dictionary())
	rp := out.ResourceProfiles().AppendEmpty()
	rp.SetSchemaUrl(res.SchemaURL())
	putAttributes(rp.Resource().Attributes(), res.Attributes())
	sp := rp.ScopeProfiles().AppendEmpty()
	sp.Scope().SetName(scope.Name)
	sp.Scope().SetVersion(scope.Version)
	sp.SetSchemaUrl(scope.SchemaURL)
	stacks := make([]int32, len(p.Sample))
	labels := make([][]int32, len(p.Sample))
	for i, s := range p.Sample {
		stacks[i], labels[i] = c.stack(s.Location), c.labels(s)
	}
	for t, kind := range p.SampleType {
		to := sp.Profiles().AppendEmpty()
		c.header(to, kind)
		for i, s := range p.Sample {
			if s.Value[t] == 0 {
				continue
			}
			sample := to.Samples().AppendEmpty()
			sample.SetStackIndex(stacks[i])
			sample.AttributeIndices().FromRaw(labels[i])
			sample.Values().Append(s.Value[t])
		}
	}
	return out
}

// A converter fills the tables of a dictionary. Element 0 of each table stands for no value.
type converter struct {
	prof *profile.Profile
	to   pprofile.ProfilesDictionary

	strings   map[string]int32
	mappings  map[*profile.Mapping]int32
	functions map[*profile.Function]int32
	locations map[*profile.Location]int32
	stacks    map[string]int32
	attrs     map[attr]int32
	goFrame   int32 // the attribute of a frame of Go code
}

// An attr is an attribute in the table. number counts if text is empty.
type attr struct {
	key, text, unit string
	number          int64
}

func newConverter(p *profile.Profile, to pprofile.ProfilesDictionary) *converter {
	c := &converter{
		prof: p, to: to, strings: map[string]int32{"": 0}, mappings: map[*profile.Mapping]int32{nil: 0}, functions: map[*profile.Function]int32{nil: 0},
		locations: map[*profile.Location]int32{}, stacks: map[string]int32{"": 0}, attrs: map[attr]int32{},
	}
	to.StringTable().Append("")
	to.MappingTable().AppendEmpty()
	to.FunctionTable().AppendEmpty()
	to.LocationTable().AppendEmpty()
	to.StackTable().AppendEmpty()
	to.LinkTable().AppendEmpty()
	to.AttributeTable().AppendEmpty()
	c.goFrame = c.attribute(attr{key: "profile.frame.type", text: "go"})
	return c
}

// header sets what describes the samples of a profile.
func (c *converter) header(to pprofile.Profile, kind *profile.ValueType) {
	to.SampleType().SetTypeStrindex(c.string(kind.Type))
	to.SampleType().SetUnitStrindex(c.string(kind.Unit))
	to.SetTime(pcommon.Timestamp(c.prof.TimeNanos))
	to.SetDurationNano(uint64(max(c.prof.DurationNanos, 0)))
	if period := c.prof.PeriodType; period != nil {
		to.PeriodType().SetTypeStrindex(c.string(period.Type))
		to.PeriodType().SetUnitStrindex(c.string(period.Unit))
		to.SetPeriod(c.prof.Period)
	}
	var id pprofile.ProfileID
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	to.SetProfileID(id)
}

func (c *converter) string(s string) int32 {
	s = clean(s, maxText)
	i, ok := c.strings[s]
	if !ok {
		i = int32(c.to.StringTable().Len())
		c.to.StringTable().Append(s)
		c.strings[s] = i
	}
	return i
}

func (c *converter) attribute(a attr) int32 {
	i, ok := c.attrs[a]
	if !ok {
		i = int32(c.to.AttributeTable().Len())
		to := c.to.AttributeTable().AppendEmpty()
		to.SetKeyStrindex(c.string(a.key))
		to.SetUnitStrindex(c.string(a.unit))
		if a.text != "" {
			to.Value().SetStr(clean(a.text, maxText))
		} else {
			to.Value().SetInt(a.number)
		}
		c.attrs[a] = i
	}
	return i
}

// labels returns the attributes of a sample. Of several values of a label, each is an attribute.
func (c *converter) labels(s *profile.Sample) []int32 {
	var list []int32
	for key, values := range s.Label {
		for _, v := range values {
			if v != "" {
				list = append(list, c.attribute(attr{key: key, text: v}))
			}
		}
	}
	for key, values := range s.NumLabel {
		for i, v := range values {
			unit := ""
			if units := s.NumUnit[key]; i < len(units) {
				unit = units[i]
			}
			list = append(list, c.attribute(attr{key: key, number: v, unit: unit}))
		}
	}
	return list
}

func (c *converter) stack(list []*profile.Location) int32 {
	indices := make([]int32, len(list))
	key := make([]byte, 0, 4*len(list))
	for i, l := range list {
		n := c.location(l)
		indices[i] = n
		key = append(key, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	i, ok := c.stacks[string(key)]
	if !ok {
		i = int32(c.to.StackTable().Len())
		c.to.StackTable().AppendEmpty().LocationIndices().FromRaw(indices)
		c.stacks[string(key)] = i
	}
	return i
}

func (c *converter) location(l *profile.Location) int32 {
	i, ok := c.locations[l]
	if ok {
		return i
	}
	i = int32(c.to.LocationTable().Len())
	c.locations[l] = i
	to := c.to.LocationTable().AppendEmpty()
	to.SetMappingIndex(c.mapping(l.Mapping))
	to.SetAddress(l.Address)
	to.AttributeIndices().Append(c.goFrame)
	for _, line := range l.Line {
		n := to.Lines().AppendEmpty()
		n.SetFunctionIndex(c.function(line.Function))
		n.SetLine(line.Line)
		n.SetColumn(line.Column)
	}
	return i
}

func (c *converter) function(f *profile.Function) int32 {
	i, ok := c.functions[f]
	if ok {
		return i
	}
	i = int32(c.to.FunctionTable().Len())
	c.functions[f] = i
	to := c.to.FunctionTable().AppendEmpty()
	to.SetNameStrindex(c.string(f.Name))
	to.SetSystemNameStrindex(c.string(f.SystemName))
	to.SetFilenameStrindex(c.string(f.Filename))
	to.SetStartLine(f.StartLine)
	return i
}

func (c *converter) mapping(m *profile.Mapping) int32 {
	i, ok := c.mappings[m]
	if ok {
		return i
	}
	i = int32(c.to.MappingTable().Len())
	c.mappings[m] = i
	to := c.to.MappingTable().AppendEmpty()
	to.SetMemoryStart(m.Start)
	to.SetMemoryLimit(m.Limit)
	to.SetFileOffset(m.Offset)
	to.SetFilenameStrindex(c.string(m.File))
	if m.BuildID != "" {
		to.AttributeIndices().Append(c.attribute(attr{key: "process.executable.build_id.gnu", text: m.BuildID}))
	}
	return i
}

// putAttributes copies the attributes of a resource, which are texts and numbers.
func putAttributes(to pcommon.Map, attrs []attribute.KeyValue) {
	for _, a := range attrs {
		if a.Value.Type() == attribute.INT64 {
			to.PutInt(string(a.Key), a.Value.AsInt64())
		} else {
			to.PutStr(string(a.Key), a.Value.String())
		}
	}
}
