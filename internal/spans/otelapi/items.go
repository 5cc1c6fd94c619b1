package otelapi

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
)

// Items of a list in a note, as in probes.c.
const (
	itemNone = iota
	itemOption
	itemAttribute
	itemText
)

// options are those of a call.
type options struct {
	attributes []attribute.KeyValue
	kind       trace.SpanKind
	root       bool
	at         int64 // Unix nanoseconds; 0: not set
}

// items reads a list of attributes and options.
func (d *decoder) items(n *probe.Note) options {
	var o options
	listed := true // attributes are those of the call, or of an option that has attributes
	var texts []string
	flush := func() {
		if len(texts) > 0 {
			last := &o.attributes[len(o.attributes)-1]
			last.Value, texts = attribute.StringSliceValue(texts), nil
		}
	}
	for {
		switch n.Word() {
		case itemOption:
			flush()
			listed = d.option(n, &o)
		case itemAttribute:
			flush()
			if kv, ok := d.attribute(n); ok && listed {
				o.attributes = append(o.attributes, kv)
			}
		case itemText:
			if text, ok := d.text(n); ok && listed && len(o.attributes) > 0 && o.attributes[len(o.attributes)-1].Value.Type() == attribute.STRINGSLICE {
				texts = append(texts, text)
			}
		default:
			flush()
			return o
		}
	}
}

// option reads an option. It reports whether the option is a list of attributes.
func (d *decoder) option(n *probe.Note, o *options) bool {
	itab, typ, data, first, second := n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	name := d.typeName(itab, typ)
	switch {
	case strings.HasSuffix(name, "trace.attributeOption"):
		return true
	case strings.HasSuffix(name, "trace.timestampOption"):
		o.at = unixNano(first, second)
	case strings.HasSuffix(name, "trace.spanOptionFunc"):
		d.function(o, data, first, second)
	}
	return false
}

// function takes an option that is a function: that of WithSpanKind, WithNewRoot or WithLinks. Its data begins with its address, and what
// it refers to: the kind, nothing, and a slice.
func (d *decoder) function(o *options, data, code, first uint64) {
	_, err := d.process.Image(data, 8)
	static := err == nil // it refers to nothing
	if code == 0 {
		code = d.constantWord(data)
	}
	name := d.process.FuncName(code) // also has the name of a function into which the compiler has copied it; only that before Go 1.21
	switch {
	case strings.Contains(name, ".WithNewRoot."):
		o.root = true
	case strings.Contains(name, ".WithLinks."):
	case static:
		o.root = !strings.Contains(name, ".WithSpanKind.")
	case first <= uint64(trace.SpanKindConsumer):
		o.kind = trace.SpanKind(first)
	}
}

// unixNano returns the time of the first two words of a time.Time.
func unixNano(wall, ext uint64) int64 {
	const (
		monotonic = 1 << 63
		nanos     = 1<<30 - 1
		since1885 = 59453308800 // seconds from year 1 to 1885
		until1970 = 62135596800 // seconds from year 1 to 1970
	)
	seconds := int64(ext)
	if wall&monotonic != 0 {
		seconds = since1885 + int64(wall<<1>>31)
	}
	return time.Unix(seconds-until1970, int64(wall&nanos)).UnixNano()
}

// attribute reads an attribute. ok is false if it is not one that can be reported.
func (d *decoder) attribute(n *probe.Note) (kv attribute.KeyValue, ok bool) {
	typ, numeric := n.Word(), n.Word()
	key, ok := d.text(n)
	addr := n.Word()
	t := n.Text()
	data, whole := d.bytes(addr, t)
	kv.Key = attribute.Key(key)
	if !ok || key == "" {
		return kv, false
	}
	switch {
	case typ == 1:
		kv.Value = attribute.BoolValue(numeric != 0)
	case typ == 2:
		kv.Value = attribute.Int64Value(int64(numeric))
	case typ == 3:
		kv.Value = attribute.Float64Value(math.Float64frombits(numeric))
	case typ == 4 && data != nil:
		kv.Value = attribute.StringValue(string(data))
	case typ == 5 && whole:
		list := make([]bool, len(data))
		for i, b := range data {
			list[i] = b != 0
		}
		kv.Value = attribute.BoolSliceValue(list)
	case typ == 6 && whole:
		kv.Value = attribute.Int64SliceValue(words(data, func(w uint64) int64 { return int64(w) }))
	case typ == 7 && whole:
		kv.Value = attribute.Float64SliceValue(words(data, math.Float64frombits))
	case typ == 8:
		kv.Value = attribute.StringSliceValue(nil) // items follow
	default:
		return kv, false
	}
	return kv, true
}

// words converts the words of an array.
func words[T any](data []byte, to func(uint64) T) []T {
	list := make([]T, 0, len(data)/8)
	for ; len(data) >= 8; data = data[8:] {
		list = append(list, to(binary.LittleEndian.Uint64(data)))
	}
	return list
}

// text reads a text and its address. ok is false if it could not be read.
func (d *decoder) text(n *probe.Note) (text string, ok bool) {
	addr := n.Word()
	b, _ := d.bytes(addr, n.Text())
	return string(b), b != nil
}

// maxConstant is the maximum length of a constant that is read, as that of texts in probes.c.
const maxConstant = 256

// bytes returns the bytes of a text, or nil if they could not be read. If a probe could not read a constant of the program, it reads that.
// whole is false if there are more.
func (d *decoder) bytes(addr uint64, t probe.Text) (b []byte, whole bool) {
	switch {
	case t.Marks&probe.MarkImpossible != 0:
		return nil, false
	case t.Marks&probe.MarkUnreadable == 0:
		return slices.Clip(append([]byte{}, t.Bytes...)), t.Marks == 0
	}
	length := min(t.Length, maxConstant)
	b, err := d.process.Image(addr, int(length))
	if err != nil {
		return nil, false
	}
	return b, t.Length == length
}

// constantWord returns a word in the image of the executable, or 0.
func (d *decoder) constantWord(addr uint64) uint64 {
	b, err := d.process.Image(addr, 8)
	if err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// typeName returns the name of the type in an itab, or an empty string. typ is 0 if a probe could not read it.
func (d *decoder) typeName(itab, typ uint64) string {
	if typ == 0 && itab != 0 {
		typ = d.constantWord(itab + 8)
	}
	if typ == 0 {
		return ""
	}
	name, err := d.process.TypeName(typ)
	if err != nil {
		return ""
	}
	return name
}

// messages are types of errors that begin with their message.
var messages = []string{"*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.fundamental"}

// recorded returns the attributes of an error that a program has recorded.
func recorded(typ, message string, known bool, more []attribute.KeyValue) []attribute.KeyValue {
	list := slices.Clone(more)
	if typ != "" {
		list = append(list, attribute.String("exception.type", typ))
	}
	if known && slices.Contains(messages, typ) {
		list = append(list, attribute.String("exception.message", message))
	}
	return list
}
