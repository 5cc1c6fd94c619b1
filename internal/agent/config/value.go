package config

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits on lists and mappings.
const (
	maxElements  = 1000
	maxOverrides = 200
)

// fromText parses a text as the value of a field: a default, an environment variable or a flag. The elements of a list are
// separated by commas; those of a mapping have the form NAME=VALUE, with percent-encoded characters. Errors say what the text must be.
func (f *field) fromText(text string) (reflect.Value, error) {
	out := reflect.New(f.typ).Elem()
	switch f.kind {
	case section, override:
		return out, errors.New("can only be set in the configuration file")
	case list:
		for element := range strings.SplitSeq(text, ",") {
			if element = strings.TrimSpace(element); element == "" {
				continue
			}
			v, err := f.scalar(f.elem, f.typ.Elem(), element)
			if err != nil {
				return out, err
			}
			out = reflect.Append(out, v)
		}
		return out, f.checkLength(out.Len())
	case mapping:
		out.Set(reflect.MakeMap(f.typ))
		for n, pair := range strings.Split(text, ",") {
			if strings.TrimSpace(pair) == "" {
				continue
			}
			name, value, ok := strings.Cut(pair, "=")
			name, err1 := url.PathUnescape(strings.TrimSpace(name))
			value, err2 := url.PathUnescape(strings.TrimSpace(value))
			if !ok || err1 != nil || err2 != nil {
				return out, fmt.Errorf("element %d must have the form NAME=VALUE, with percent-encoded characters", n+1)
			}
			if err := f.put(out, name, value); err != nil {
				return out, err
			}
		}
		return out, f.checkLength(out.Len())
	}
	return f.scalar(f.kind, f.typ, strings.TrimSpace(text))
}

func (f *field) checkLength(n int) error {
	if n > maxElements {
		return fmt.Errorf("must have at most %d elements, has %d", maxElements, n)
	}
	return nil
}

// put puts an element into a mapping.
func (f *field) put(m reflect.Value, name, value string) error {
	if say, ok := f.format.names.check(name); !ok || utf8.RuneCountInString(name) > maxText {
		return fmt.Errorf("%s must be %s", quote(name), say)
	}
	v, err := f.scalar(text, f.typ.Elem(), value)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	m.SetMapIndex(reflect.ValueOf(name), v)
	return nil
}

// scalar parses a text as a value that is neither a list nor a mapping.
func (f *field) scalar(k kind, typ reflect.Type, text string) (reflect.Value, error) {
	out := reflect.New(typ).Elem()
	err := f.parse(k, out, text)
	return out, err
}

// parse is scalar with the value to set.
func (f *field) parse(k kind, out reflect.Value, value string) error {
	switch k {
	case boolean:
		switch strings.ToLower(value) {
		case "true":
			out.SetBool(true)
		case "false":
		default:
			return f.wrong("true or false", value)
		}
	case integer:
		n, err := strconv.ParseInt(value, 10, 64)
		if float, isFloat := wholeNumber(value); err != nil && isFloat {
			n, err = float, nil
		}
		if err != nil {
			return f.wrong("a whole number", value)
		}
		out.SetInt(n)
		return f.checkRange(float64(n), value)
	case number, ratio:
		n, err := parseNumber(value, k == ratio)
		if err != nil {
			return f.wrong(or("a number", k == ratio, ", or a percentage such as 1%"), value)
		}
		out.SetFloat(n)
		return f.checkRange(n, value)
	case size:
		n, err := parseSize(value)
		if err != nil {
			return f.wrong("a number of bytes, or a size such as 512MiB", value)
		}
		out.SetInt(n)
		return f.checkRange(float64(n), value)
	case duration:
		d, err := parseDuration(value)
		if err != nil {
			return f.wrong("a duration with a unit, such as 500ms, 5s or 1m30s", value)
		}
		out.SetInt(int64(d))
		return f.checkRange(float64(d), value)
	default:
		out.SetString(value)
		return f.checkText(value)
	}
	return nil
}

func or(text string, more bool, end string) string {
	if more {
		return text + end
	}
	return text
}

// wrong is the error for a text that has the wrong form. Secrets are not repeated.
func (f *field) wrong(must, value string) error {
	if f.secret() {
		return fmt.Errorf("must be %s", must)
	}
	return fmt.Errorf("must be %s, is %s", must, quote(value))
}

func (f *field) secret() bool {
	return f.typ == reflect.TypeFor[map[string]Secret]() || f.format != nil && f.format.secret
}

func (f *field) checkRange(n float64, value string) error {
	if f.bounded && !(n >= f.min && n <= f.max) {
		return fmt.Errorf("must be %s, is %s", f.description, quote(value))
	}
	return nil
}

func (f *field) checkText(value string) error {
	if f.enum != nil {
		if !slices.Contains(f.enum, value) {
			return f.wrong(either(f.enum), value)
		}
		return nil
	}
	if n := utf8.RuneCountInString(value); n > maxText {
		return fmt.Errorf("must have at most %d characters, has %d", maxText, n)
	}
	if say, ok := f.format.check(value); !ok || !utf8.ValidString(value) {
		return f.wrong(say, value)
	}
	return nil
}

// either joins words: "a", "a or b", "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// wholeNumber parses a number such as 1e3 or 10.0, which YAML and JSON write for whole numbers, too.
func wholeNumber(text string) (int64, bool) {
	f, err := parseNumber(text, false)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Patterns of values. Those of durations, percentages and sizes are also in the JSON schema.
var (
	numberPattern   = regexp.MustCompile(`^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$`)
	percentPattern  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?%$`)
	sizePattern     = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([KMGT]iB?|[kKMGT]B|B)?$`)
	durationPattern = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h))+$`)
)

// parseNumber parses a number, if permitted also as a percentage.
func parseNumber(text string, percent bool) (float64, error) {
	scale := 1.0
	if parts := percentPattern.FindStringSubmatch(text); parts != nil && percent {
		text, scale = parts[1], 100
	}
	if !numberPattern.MatchString(text) {
		return 0, errors.New("not a number")
	}
	f, err := strconv.ParseFloat(text, 64)
	return f / scale, err
}

// units are the units of sizes: those of people, and those of Kubernetes.
var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"B", 1},
}

// parseSize parses a size.
func parseSize(text string) (int64, error) {
	parts := sizePattern.FindStringSubmatch(text)
	if parts == nil {
		if n, ok := wholeNumber(text); ok && n >= 0 {
			return n, nil
		}
		return 0, errors.New("not a size")
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	if err != nil {
		return 0, err
	}
	for _, u := range units {
		if u.name == parts[2] {
			n *= u.bytes
			break
		}
	}
	if n > 1<<60 {
		return 0, errors.New("too large")
	}
	return int64(n), nil
}

func parseDuration(text string) (time.Duration, error) {
	if !durationPattern.MatchString(text) {
		return 0, errors.New("not a duration")
	}
	return time.ParseDuration(text)
}

// render returns a value as text, as YAML can read it: in flow style on one line. Secrets are hidden.
func (f *field) render(v reflect.Value) string {
	switch f.kind {
	case list:
		elements := make([]string, v.Len())
		for i := range elements {
			elements[i] = renderScalar(f.elem, v.Index(i))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case mapping:
		names := make([]string, 0, v.Len())
		for _, k := range v.MapKeys() {
			names = append(names, k.String())
		}
		slices.Sort(names)
		for i, name := range names {
			names[i] = quoted(name) + ": " + renderScalar(text, v.MapIndex(reflect.ValueOf(name)))
		}
		return "{" + strings.Join(names, ", ") + "}"
	}
	return renderScalar(f.kind, v)
}

func renderScalar(k kind, v reflect.Value) string {
	switch k {
	case boolean:
		return strconv.FormatBool(v.Bool())
	case integer:
		return strconv.FormatInt(v.Int(), 10)
	case number, ratio:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case size:
		return renderSize(v.Int())
	case duration:
		return renderDuration(time.Duration(v.Int()))
	case auto:
		return v.String()
	}
	if v.Type() == reflect.TypeFor[Secret]() {
		return quoted(hidden)
	}
	return quoted(v.String())
}

// renderSize uses the largest unit that the size is a multiple of.
func renderSize(n int64) string {
	for i := 3; i >= 0; i-- {
		if unit := int64(units[i].bytes); n != 0 && n%unit == 0 {
			return strconv.FormatInt(n/unit, 10) + units[i].name
		}
	}
	return strconv.FormatInt(n, 10)
}

// renderDuration omits the zeros of "1m0s".
func renderDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// bare are the texts that YAML and people read without quotes.
var bare = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*$`)

// quoted returns a text as a YAML scalar.
func quoted(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
	default:
		if bare.MatchString(s) {
			return s
		}
	}
	return strconv.QuoteToASCII(s)
}
