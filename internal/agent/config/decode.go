package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the maximum size of a configuration file, in bytes.
const MaxFile = 256 << 10

// maxValues bounds the values that are read, which aliases can multiply.
const maxValues = 50_000

// errTooMany ends the reading of a file that has more than maxValues.
var errTooMany = errors.New("too many values")

// A decoder reads a file into a configuration.
type decoder struct {
	file     string
	into     *Config
	problems Problems
	values   int
}

// decode reads a file into a configuration and returns all mistakes.
func decode(file string, doc []byte, into *Config) Problems {
	d := &decoder{file: file, into: into}
	node, err := d.parse(doc)
	if err == nil && node != nil {
		err = d.section(root(), node, reflect.ValueOf(into).Elem(), "")
	}
	if errors.Is(err, errTooMany) {
		d.report(0, "", "more than %d values", maxValues)
	}
	return d.problems
}

func (d *decoder) report(line int, path, message string, args ...any) {
	d.problems = append(d.problems, Problem{Origin{File: d.file, Line: max(line, 1)}, path, fmt.Sprintf(message, args...)})
}

// syntaxError finds the line in an error of package yaml.
var syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?:line \d+: )?(.*)`)

// parse returns the only document of a file, nil if it is empty.
func (d *decoder) parse(doc []byte) (*yaml.Node, error) {
	if len(doc) > MaxFile {
		d.report(0, "", "larger than %d KiB", MaxFile>>10)
		return nil, nil
	}
	if bytes.IndexByte(doc, 0) >= 0 {
		d.report(1+bytes.Count(doc[:bytes.IndexByte(doc, 0)], []byte("\n")), "", "not a text file")
		return nil, nil
	}
	var first, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	err := dec.Decode(&first)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = dec.Decode(&second); errors.Is(err, io.EOF) {
			return first.Content[0], nil
		} else if err == nil {
			d.report(second.Line, "", "a second document: must have one (remove the line ---)")
			return first.Content[0], nil
		}
	}
	line, message := 0, err.Error()
	if parts := syntaxError.FindStringSubmatch(message); parts != nil {
		line, _ = strconv.Atoi(parts[1])
		message = parts[2]
	}
	if strings.Contains(message, "alphabetic or numeric character") {
		message += " (write a text that begins with * or & in quotes)"
	}
	d.report(line, "", "invalid YAML: %s", message)
	return nil, nil
}

// count counts a value, and resolves it if it is an alias.
func (d *decoder) count(node *yaml.Node) (*yaml.Node, error) {
	if d.values++; d.values > maxValues {
		return nil, errTooMany
	}
	for range 10 { // an alias of an alias is not possible, but costs nothing to refuse
		if node.Kind != yaml.AliasNode {
			return node, nil
		}
		node = node.Alias
	}
	return nil, errTooMany
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" }

// section reads a mapping with the keys of f. Its path, with a dot, is prefix.
func (d *decoder) section(f *field, node *yaml.Node, in reflect.Value, prefix string) error {
	node, err := d.count(node)
	if err != nil || isNull(node) {
		return err
	}
	path := strings.TrimSuffix(prefix, ".")
	if node.Kind != yaml.MappingNode {
		d.report(node.Line, path, "must be a mapping of keys (%s), is %s", example(f), what(node))
		return nil
	}
	return d.eachKey(node, path, func(key, value *yaml.Node) error {
		c := f.child(key.Value)
		if c == nil {
			d.report(key.Line, path, "%s", unknown(f, key.Value, prefix))
			return nil
		}
		path := prefix + c.key
		switch {
		case c.kind == section:
			return d.section(c, value, c.value(in), path+".")
		case c.kind == override:
			return d.overrides(c, value, c.value(in), path)
		case c.alias != "":
			return d.aliased(c, key.Line, value, path)
		}
		return d.leaf(c, key.Line, value, c.value(in), path)
	})
}

// eachKey calls visit for each key of a mapping, without duplicates.
func (d *decoder) eachKey(node *yaml.Node, path string, visit func(key, value *yaml.Node) error) error {
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, err := d.count(node.Content[i])
		if err != nil {
			return err
		}
		line := node.Content[i].Line
		if key.Kind != yaml.ScalarNode {
			d.report(line, path, "a key must be a text, is %s", what(key))
			continue
		}
		if key.ShortTag() == "!!merge" {
			d.report(line, path, "merge keys (<<) are not supported: write the keys")
			continue
		}
		if first := lines[key.Value]; first != 0 {
			d.report(line, path, "duplicate key %s, first in line %d", quote(key.Value), first)
			continue
		}
		lines[key.Value] = line
		at := *key
		at.Line = line
		if err := visit(&at, node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// aliased reads a key that is another name of a key.
func (d *decoder) aliased(c *field, line int, node *yaml.Node, path string) error {
	target := root().find(c.alias)
	if first := d.into.origins[c.alias]; first.Line != 0 {
		d.report(line, path, "duplicate: %s in line %d has the same meaning (remove one)", c.alias, first.Line)
		return nil
	}
	return d.leaf(target, line, node, d.into.at(c.alias), c.alias)
}

// leaf reads the value of a key that is not a section. The key is in a line.
func (d *decoder) leaf(f *field, line int, node *yaml.Node, into reflect.Value, path string) error {
	if first := d.into.origins[path]; first.Line != 0 {
		d.report(line, path, "duplicate: line %d has the same meaning (remove one)", first.Line)
		return nil
	}
	value := node.Line // of an alias: where it is used
	node, err := d.count(node)
	if err != nil {
		return err
	}
	if isNull(node) && (f.kind == list || f.kind == mapping) {
		return nil
	}
	out := reflect.New(f.typ).Elem()
	before := len(d.problems)
	switch f.kind {
	case list:
		err = d.list(f, node, out, path)
	case mapping:
		err = d.mapping(f, node, out, path)
	default:
		if problem := f.parseNode(f.kind, node, out); problem != nil {
			d.report(value, path, "%v", problem)
		}
	}
	if err == nil && len(d.problems) == before {
		into.Set(out)
		d.into.origins[path] = Origin{File: d.file, Line: line}
	}
	return err
}

func (d *decoder) list(f *field, node *yaml.Node, out reflect.Value, path string) error {
	if node.Kind != yaml.SequenceNode {
		d.report(node.Line, path, "must be a list, such as [%s], is %s", listExample(f), what(node))
		return nil
	}
	if err := f.checkLength(len(node.Content)); err != nil {
		d.report(node.Line, path, "%v", err)
		return nil
	}
	out.Set(reflect.MakeSlice(f.typ, len(node.Content), len(node.Content)))
	for i, n := range node.Content {
		element, err := d.count(n)
		if err != nil {
			return err
		}
		if problem := f.parseNode(f.elem, element, out.Index(i)); problem != nil {
			d.report(n.Line, fmt.Sprintf("%s[%d]", path, i), "%v", problem)
		}
	}
	return nil
}

func (d *decoder) mapping(f *field, node *yaml.Node, out reflect.Value, path string) error {
	if node.Kind != yaml.MappingNode {
		d.report(node.Line, path, "must be a mapping of names to texts, is %s", f.what(node))
		return nil
	}
	if err := f.checkLength(len(node.Content) / 2); err != nil {
		d.report(node.Line, path, "%v", err)
		return nil
	}
	out.Set(reflect.MakeMap(f.typ))
	return d.eachKey(node, path, func(key, value *yaml.Node) error {
		n, err := d.count(value)
		if err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			d.report(value.Line, path, "%s must be a text, is %s", quote(key.Value), f.what(n))
			return nil
		}
		if err := f.put(out, key.Value, n.Value); err != nil {
			d.report(value.Line, path, "%v", err)
		}
		return nil
	})
}

// overrides reads the list of overrides.
func (d *decoder) overrides(f *field, node *yaml.Node, into reflect.Value, path string) error {
	node, err := d.count(node)
	if err != nil || isNull(node) {
		return err
	}
	if node.Kind != yaml.SequenceNode {
		d.report(node.Line, path, "must be a list of mappings with match and settings, is %s", what(node))
		return nil
	}
	if len(node.Content) > maxOverrides {
		d.report(node.Line, path, "must have at most %d elements, has %d", maxOverrides, len(node.Content))
		return nil
	}
	list := make([]Override, len(node.Content))
	for i, n := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		element, err := d.count(n)
		if err != nil {
			return err
		}
		if isNull(element) {
			d.report(n.Line, at, "must be a mapping with match and settings, is nothing")
			continue
		}
		before := len(d.problems)
		if err := d.section(f, element, reflect.ValueOf(&list[i]).Elem(), at+"."); err != nil {
			return err
		}
		f.walk(reflect.ValueOf(&list[i]).Elem(), func(c *field, _ reflect.Value) {
			if !c.ofMatch() && d.into.origins[at+"."+c.path] != (Origin{}) {
				list[i].set = append(list[i].set, c)
			}
		})
		if len(d.problems) > before {
			continue
		}
		if list[i].Match.empty() {
			d.report(n.Line, at, "match is missing or empty: would be for all targets (set those in tracing)")
		} else if len(list[i].set) == 0 {
			d.report(n.Line, at, "sets nothing: must have a key of tracing, such as engine, or sampling")
		}
	}
	into.Set(reflect.ValueOf(list))
	d.into.origins[path] = Origin{File: d.file, Line: node.Line}
	return nil
}

// parseNode is parse for a value in YAML, which has a type.
func (f *field) parseNode(k kind, node *yaml.Node, out reflect.Value) error {
	tag := node.ShortTag()
	if node.Kind != yaml.ScalarNode {
		tag = ""
	}
	value := node.Value
	if tag == "!!int" || tag == "!!float" {
		var err error
		if value, err = canonical(node); err != nil {
			return fmt.Errorf("must be %s, is %s", f.expected(k), quote(node.Value))
		}
	}
	accepted := map[kind][]string{
		boolean: {"!!bool"}, integer: {"!!int", "!!float"}, number: {"!!int", "!!float"}, ratio: {"!!int", "!!float", "!!str"},
		size: {"!!int", "!!float", "!!str"}, auto: {"!!bool", "!!str"},
	}[k]
	switch {
	case accepted == nil && f.format != nil && f.format.number:
		accepted = []string{"!!str", "!!int"}
	case accepted == nil:
		accepted = []string{"!!str", "!!timestamp"} // YAML 1.2 and JSON have no timestamps
	}
	if !slices.Contains(accepted, tag) {
		return fmt.Errorf("must be %s, is %s", f.expected(k), f.what(node))
	}
	if k == ratio && tag == "!!str" && !strings.HasSuffix(value, "%") {
		return fmt.Errorf("must be %s, is %s", f.expected(k), what(node))
	}
	return f.parse(k, out, value)
}

// canonical returns the decimal form of a number in YAML, which may be written as 0x10.
func canonical(node *yaml.Node) (string, error) {
	var n int64
	if node.ShortTag() == "!!int" && node.Decode(&n) == nil {
		return strconv.FormatInt(n, 10), nil
	}
	var f float64
	if err := node.Decode(&f); err != nil {
		return "", err
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "", errors.New("not finite")
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

// expected says what a value must be.
func (f *field) expected(k kind) string {
	if f.enum != nil {
		return either(f.enum)
	}
	switch k {
	case boolean:
		return "true or false"
	case integer:
		return or("a whole number", f.bounded, ": "+f.description)
	case number:
		return or("a number", f.bounded, ": "+f.description)
	case ratio:
		return "a number, or a percentage such as 1%"
	case size:
		return "a number of bytes, or a size such as 512MiB"
	case duration:
		return "a duration with a unit, such as 500ms, 5s or 1m30s"
	}
	if f.format == nil {
		return plainText.say
	}
	return f.format.say
}

// what says what a value is, for errors.
func (f *field) what(node *yaml.Node) string {
	if f.secret() && node.Kind == yaml.ScalarNode && !isNull(node) {
		return "another value"
	}
	return what(node)
}

func what(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch tag := node.ShortTag(); tag {
	case "!!null":
		return "nothing"
	case "!!str", "!!timestamp":
		return "the text " + quote(node.Value)
	case "!!int", "!!float":
		return "the number " + quote(node.Value) + " (write a text in quotes)"
	case "!!bool":
		return quote(node.Value) + " (write a text in quotes)"
	default:
		return quote(tag + " " + node.Value)
	}
}

// example names some keys of a section.
func example(f *field) string {
	var keys []string
	for _, c := range f.fields[:min(3, len(f.fields))] {
		keys = append(keys, c.key)
	}
	text := strings.Join(keys, ", ")
	if len(f.fields) > len(keys) {
		text += " and others"
	}
	return text
}

func listExample(f *field) string {
	switch {
	case f.enum != nil:
		return f.enum[0]
	case f.elem == integer:
		return "1234"
	case f.format == glob:
		return `"name-*"`
	}
	return "name"
}

// unknown is the message for a key that f does not have.
func unknown(f *field, key, prefix string) string {
	message := "unknown key " + quote(key)
	var keys []string
	for _, c := range f.fields {
		keys = append(keys, c.key)
	}
	if similar := nearest(key, keys); similar != "" {
		return message + ", did you mean " + prefix + similar + "?"
	}
	if other := elsewhere(root(), key); other != "" {
		return message + ", did you mean " + other + "?"
	}
	return message
}

// elsewhere returns the path of the first key below f with a name.
func elsewhere(f *field, key string) string {
	for _, c := range f.fields {
		if c.key == key && c.alias == "" {
			return c.path
		}
	}
	for _, c := range f.fields {
		if c.kind == section {
			if path := elsewhere(c, key); path != "" {
				return path
			}
		}
	}
	return ""
}
