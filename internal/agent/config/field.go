package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A kind is the form that a value has in YAML and as text.
type kind uint8

const (
	section  kind = iota
	boolean       // true, false
	integer       // 10
	number        // 0.5
	ratio         // 0.01, "1%"
	size          // 1048576, "1MiB"
	duration      // "5s"
	text          // any
	auto          // true, false, auto
	list          // of elem
	mapping       // of names to texts
	override      // a list of Override
)

// A field describes a key of the configuration. The values in the tag of the Go field have been parsed.
type field struct {
	key   string
	path  string // of keys, such as "sampling.min_ratio"; below an Override that in the Override, such as "match.pids"
	owner string // the Go type that has the field
	index []int  // in the Go type of the section that it is in
	typ   reflect.Type
	kind  kind
	elem  kind // of the elements of a list

	def      string
	bounded  bool // a number of the field has a minimum and a maximum
	min, max float64
	enum     []string
	format   *format // nil means any

	env         string
	milli       bool // the environment variable is a number of milliseconds
	flag        string
	restart     bool
	alias       string
	fields      []*field // of a section or an Override
	description string   // of the range: "1s to 24h"
}

// root describes the configuration. The description is made once: tests show that it can be.
var root = sync.OnceValue(func() *field {
	f := &field{kind: section, typ: reflect.TypeFor[Config]()}
	f.fields = describe(f.typ, "", nil, false)
	return f
})

// describe returns the fields of a Go type. Those of an embedded type belong to the type that it is embedded in.
func describe(typ reflect.Type, path string, index []int, restart bool) []*field {
	var fields []*field
	for i := range typ.NumField() {
		sf := typ.Field(i)
		at := append(slices.Clone(index), i)
		if sf.Anonymous {
			fields = append(fields, describe(sf.Type, path, at, restart)...)
			continue
		}
		key := sf.Tag.Get("key")
		if key == "" {
			continue
		}
		f := &field{key: key, path: path + key, owner: typ.Name(), index: at, typ: sf.Type,
			def: sf.Tag.Get("default"), flag: sf.Tag.Get("flag"), alias: sf.Tag.Get("alias"),
			restart: restart || sf.Tag.Get("restart") == "true"}
		f.env, f.milli = strings.CutSuffix(sf.Tag.Get("env"), "/ms")
		f.setKind()
		switch f.kind {
		case section:
			f.fields = describe(sf.Type, f.path+".", nil, f.restart)
		case override:
			f.fields = describe(sf.Type.Elem(), "", nil, f.restart)
		}
		f.setLimits(sf.Tag)
		fields = append(fields, f)
	}
	return fields
}

// setKind sets the kind that the Go type of a field has.
func (f *field) setKind() {
	switch f.typ {
	case reflect.TypeFor[time.Duration]():
		f.kind = duration
	case reflect.TypeFor[Size]():
		f.kind = size
	case reflect.TypeFor[Ratio]():
		f.kind = ratio
	case reflect.TypeFor[Auto]():
		f.kind = auto
	case reflect.TypeFor[[]Override]():
		f.kind = override
	default:
		f.kind = basicKind(f.typ.Kind())
	}
	if f.kind == list {
		f.elem = basicKind(f.typ.Elem().Kind())
	}
}

func basicKind(k reflect.Kind) kind {
	switch k {
	case reflect.Struct:
		return section
	case reflect.Bool:
		return boolean
	case reflect.Int:
		return integer
	case reflect.Float64:
		return number
	case reflect.String:
		return text
	case reflect.Slice:
		return list
	case reflect.Map:
		return mapping
	}
	panic(fmt.Sprintf("no kind for %v", k))
}

// setLimits sets what values are possible.
func (f *field) setLimits(tag reflect.StructTag) {
	if names := tag.Get("enum"); names != "" {
		f.enum = strings.Split(names, ",")
	}
	if name := tag.Get("format"); name != "" {
		f.format = formats[name]
		if f.format == nil {
			panic("unknown format " + name)
		}
	}
	least, most := tag.Get("min"), tag.Get("max")
	if least == "" {
		return
	}
	k := f.kind
	if k == list {
		k = f.elem
	}
	limit := func(text string) float64 {
		switch k {
		case duration:
			d, err := time.ParseDuration(text)
			must(err)
			return float64(d)
		case size:
			n, err := parseSize(text)
			must(err)
			return float64(n)
		}
		n, err := strconv.ParseFloat(text, 64)
		must(err)
		return n
	}
	f.bounded, f.min, f.max, f.description = true, limit(least), limit(most), least+" to "+most
}

// must is for the tags in config.go alone.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// value returns the value of a field in the section that it is in.
func (f *field) value(in reflect.Value) reflect.Value { return in.FieldByIndex(f.index) }

// child returns the field with a key, or nil.
func (f *field) child(key string) *field {
	for _, c := range f.fields {
		if c.key == key {
			return c
		}
	}
	return nil
}

// find returns the field with a path below f, or nil.
func (f *field) find(path string) *field {
	for key := range strings.SplitSeq(path, ".") {
		if f = f.child(key); f == nil {
			return nil
		}
	}
	return f
}

// walk calls visit for each field below f that has a value, with the value. in is the value of f.
func (f *field) walk(in reflect.Value, visit func(*field, reflect.Value)) {
	for _, c := range f.fields {
		switch {
		case c.alias != "":
		case c.kind == section:
			c.walk(c.value(in), visit)
		default:
			visit(c, c.value(in))
		}
	}
}

// at returns the value of a field of the configuration, which root describes.
func (c *Config) at(path string) reflect.Value { return root().at(reflect.ValueOf(c).Elem(), path) }

// at returns the value of a field below f. in is the value of f.
func (f *field) at(in reflect.Value, path string) reflect.Value {
	for key := range strings.SplitSeq(path, ".") {
		f = f.child(key)
		in = f.value(in)
	}
	return in
}

// Default returns the configuration without a file, environment variables or flags.
func Default() *Config {
	c := &Config{origins: map[string]Origin{}}
	setDefaults(root(), reflect.ValueOf(c).Elem())
	return c
}

func setDefaults(f *field, in reflect.Value) {
	f.walk(in, func(f *field, v reflect.Value) {
		if f.def == "" {
			return
		}
		parsed, err := f.fromText(f.def)
		must(err)
		v.Set(parsed)
	})
}
