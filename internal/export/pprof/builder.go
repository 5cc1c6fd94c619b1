package pprof

import (
	"encoding/binary"
	"io"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
)

// ValueType is what a value of a sample counts, and in which unit: {"goroutine", "count"}.
type ValueType struct{ Type, Unit string }

// Mapping is the executable in the memory of the profiled process. The zero value is left out of the profile.
type Mapping struct {
	Start, End uint64 // addresses of the mapped machine code
	Offset     uint64 // of Start in the file
	File       string
}

// Location is one address of a stack with the call frames there: more than one when the compiler inlined calls.
type Location struct {
	Addr  uint64        // the address of the call or of the current instruction; 0 when unknown
	Lines []event.Frame // the innermost first
}

// Builder collects samples. Samples with the same stack and labels are added up.
type Builder struct {
	prof      *profile.Profile
	mapping   *profile.Mapping
	functions map[functionKey]*profile.Function
	locations map[string]*profile.Location
	samples   map[string]*profile.Sample
	key       []byte
}

type functionKey struct{ name, file string }

// NewBuilder starts a profile taken at a time, with samples of the given value types. The first one is what viewers show
// unless they are asked for another, and the profile's period.
func NewBuilder(taken time.Time, mapping Mapping, types ...ValueType) *Builder {
	b := &Builder{
		prof: &profile.Profile{TimeNanos: taken.UnixNano(), Period: 1, DefaultSampleType: types[0].Type,
			PeriodType: &profile.ValueType{Type: types[0].Type, Unit: types[0].Unit}},
		functions: map[functionKey]*profile.Function{},
		locations: map[string]*profile.Location{},
		samples:   map[string]*profile.Sample{},
	}
	for _, t := range types {
		b.prof.SampleType = append(b.prof.SampleType, &profile.ValueType{Type: t.Type, Unit: t.Unit})
	}
	if mapping != (Mapping{}) {
		b.mapping = &profile.Mapping{ID: 1, Start: mapping.Start, Limit: mapping.End, Offset: mapping.Offset,
			File: mapping.File, HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
		b.prof.Mapping = []*profile.Mapping{b.mapping}
	}
	return b
}

// Prefer makes viewers show another of the profile's value types than the first one.
func (b *Builder) Prefer(valueType string) { b.prof.DefaultSampleType = valueType }

// Lasted says over which time the samples were collected; without it they are of one moment.
func (b *Builder) Lasted(d time.Duration) { b.prof.DurationNanos = d.Nanoseconds() }

// Sampled sets the period: one sample stands for period units of a value type.
func (b *Builder) Sampled(t ValueType, period int64) {
	b.prof.PeriodType, b.prof.Period = &profile.ValueType{Type: t.Type, Unit: t.Unit}, period
}

// Comment adds a line that viewers show with the profile's header.
func (b *Builder) Comment(text string) { b.prof.Comments = append(b.prof.Comments, text) }

// Add adds one sample: a stack, leaf first, its labels, and a value for each of the profile's types.
func (b *Builder) Add(stack []Location, labels map[string]string, values ...int64) {
	b.add(stack, labels, 0, values)
}

// AddSized adds one sample of objects of a size in bytes, with the label that runtime/pprof uses for it.
func (b *Builder) AddSized(stack []Location, size int64, values ...int64) {
	b.add(stack, nil, size, values)
}

func (b *Builder) add(stack []Location, labels map[string]string, size int64, values []int64) {
	locations := make([]*profile.Location, len(stack))
	b.key = b.key[:0]
	for i := range stack {
		locations[i] = b.location(&stack[i])
	}
	for _, l := range locations {
		b.key = binary.AppendUvarint(b.key, l.ID)
	}
	b.key = binary.AppendUvarint(b.key, 0) // no location has this ID
	b.key = binary.AppendVarint(b.key, size)
	b.key = appendLabels(b.key, labels)
	s, ok := b.samples[string(b.key)]
	if !ok {
		s = &profile.Sample{Location: locations, Value: make([]int64, len(b.prof.SampleType))}
		if len(labels) > 0 {
			s.Label = make(map[string][]string, len(labels))
			for k, v := range labels {
				s.Label[k] = []string{v}
			}
		}
		if size != 0 {
			s.NumLabel = map[string][]int64{"bytes": {size}}
		}
		b.samples[string(b.key)] = s
		b.prof.Sample = append(b.prof.Sample, s)
	}
	for i, v := range values {
		s.Value[i] += v
	}
}

// Samples returns the number of distinct samples so far.
func (b *Builder) Samples() int { return len(b.prof.Sample) }

// Profile returns the profile. Samples that are added later change it.
func (b *Builder) Profile() *profile.Profile { return b.prof }

// Write writes the profile, compressed as viewers expect it.
func (b *Builder) Write(w io.Writer) error {
	if err := b.prof.CheckValid(); err != nil {
		return err
	}
	return b.prof.Write(w)
}

// location returns the profile's location for an address and its frames.
func (b *Builder) location(l *Location) *profile.Location {
	key := binary.AppendUvarint(nil, l.Addr)
	for _, f := range l.Lines {
		key = appendText(key, f.Func)
		key = appendText(key, f.File)
		key = binary.AppendVarint(key, int64(f.Line))
	}
	if loc, ok := b.locations[string(key)]; ok {
		return loc
	}
	loc := &profile.Location{ID: uint64(len(b.prof.Location) + 1), Address: l.Addr}
	if b.mapping != nil && l.Addr >= b.mapping.Start && l.Addr < b.mapping.Limit {
		loc.Mapping = b.mapping
	}
	for _, f := range l.Lines {
		loc.Line = append(loc.Line, profile.Line{Function: b.function(f), Line: int64(f.Line)})
	}
	b.locations[string(key)] = loc
	b.prof.Location = append(b.prof.Location, loc)
	return loc
}

func (b *Builder) function(f event.Frame) *profile.Function {
	key := functionKey{f.Func, f.File}
	fn, ok := b.functions[key]
	if !ok {
		fn = &profile.Function{ID: uint64(len(b.prof.Function) + 1), Name: f.Func, SystemName: f.Func, Filename: f.File}
		b.functions[key] = fn
		b.prof.Function = append(b.prof.Function, fn)
	}
	return fn
}

func appendLabels(key []byte, labels map[string]string) []byte {
	names := make([]string, 0, len(labels))
	for k := range labels {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		key = appendText(key, k)
		key = appendText(key, labels[k])
	}
	return key
}

// appendText adds a text with its length, so that different texts never result in the same key.
func appendText(key []byte, s string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(s))), s...)
}
