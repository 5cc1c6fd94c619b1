package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the files that are made from the description of the configuration")

// deploy is the directory of files for users.
const deploy = "../../../deploy"

type object = map[string]any

// schema returns the JSON schema of the configuration.
func schema(t *testing.T) []byte {
	s := schemer{t, readDocs(t)}.section(root())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["$id"] = "https://github.com/loupe-go/loupe/blob/main/deploy/config.schema.json"
	s["title"] = "Configuration of loupe-agent"
	doc := &bytes.Buffer{}
	enc := json.NewEncoder(doc)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	return doc.Bytes()
}

// A schemer makes schemas of fields, with documentation.
type schemer struct {
	t    *testing.T
	docs map[string]string
}

func (s schemer) section(f *field) object {
	properties := object{}
	for _, c := range f.fields {
		var p object
		switch {
		case c.alias != "":
			p = s.field(root().find(c.alias))
		case c.kind == section:
			p = s.section(c)
		default:
			p = s.field(c)
		}
		p["description"] = s.docs[c.owner+":"+c.key]
		properties[c.key] = p
	}
	return object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
}

func (s schemer) field(f *field) object {
	var p object
	switch f.kind {
	case list:
		p = object{"type": []string{"array", "null"}, "maxItems": maxElements, "items": s.value(f, f.elem)}
	case mapping:
		p = object{
			"type": []string{"object", "null"}, "maxProperties": maxElements, "additionalProperties": s.value(f, text),
			"propertyNames": object{"pattern": f.format.names.pattern.String(), "maxLength": maxText},
		}
	case override:
		element := s.section(f)
		element["type"], element["required"], element["minProperties"] = "object", []string{"match"}, 2
		match := element["properties"].(object)["match"].(object)
		match["type"], match["minProperties"] = "object", 1
		return object{"type": []string{"array", "null"}, "maxItems": maxOverrides, "items": element}
	default:
		p = s.value(f, f.kind)
	}
	if f.def != "" {
		v, err := f.fromText(f.def)
		must(err)
		var def any
		if err := yaml.Unmarshal([]byte(f.render(v)), &def); err != nil {
			s.t.Fatal(err)
		}
		p["default"] = def
	}
	return p
}

// value returns the schema of a value that is neither list nor mapping.
func (s schemer) value(f *field, k kind) object {
	p := object{}
	if f.bounded && k != duration {
		p["minimum"], p["maximum"] = f.min, f.max
	}
	either := func(typ, pattern string) object {
		p["type"] = typ
		return object{"anyOf": []object{p, {"type": "string", "pattern": pattern}}}
	}
	switch k {
	case boolean:
		p["type"] = "boolean"
	case integer:
		p["type"] = "integer"
	case number:
		p["type"] = "number"
	case ratio:
		return either("number", percentPattern.String())
	case size:
		return either("integer", sizePattern.String())
	case duration:
		p["type"], p["pattern"] = "string", durationPattern.String()
	case auto:
		p["enum"] = []any{"auto", true, false, "true", "false"}
	default:
		switch format := f.format; {
		case f.enum != nil:
			p["enum"] = f.enum
		case format == nil:
			p["type"], p["maxLength"], p["pattern"] = "string", maxText, plainText.pattern.String()
		case format.number:
			p["minimum"] = 0
			return either("integer", format.pattern.String())
		default:
			p["type"], p["maxLength"], p["pattern"] = "string", maxText, format.pattern.String()
		}
	}
	return p
}

// current compares a file with what it must contain, or writes it.
func current(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not current: run go test ./internal/agent/config -update (%v)", file, err)
	}
}

func TestSchemaIsCurrent(t *testing.T) {
	current(t, filepath.Join(deploy, "config.schema.json"), schema(t))
}

// published compiles the schema that users have.
func published(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft4) // the schema must name its own
	s, err := compiler.Compile(filepath.Join(deploy, "config.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if s.DraftVersion != 2020 {
		t.Fatalf("draft %d", s.DraftVersion)
	}
	return s
}

// toJSON returns a YAML document as validators of JSON schemas have it.
func toJSON(doc string) (any, error) {
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(doc), &node); err != nil {
		return nil, err
	}
	var timesAreTexts func(*yaml.Node) // as in YAML 1.2
	timesAreTexts = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
			n.Tag = "!!str"
		}
		for _, c := range n.Content {
			timesAreTexts(c)
		}
	}
	timesAreTexts(&node)
	var v any
	if err := node.Decode(&v); err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}

// beyond matches the problems that the schema does not express: ranges of texts, and keys that depend on others.
var beyond = regexp.MustCompile(`must be \S+ to \S+, is "[0-9.]+ ?[%a-zA-Z]+"$|must be \S+ to \S+, is "[01]"$|has the same (port|meaning)|` +
	`requires (key|cert)_file|invalid endpoint|contradicts|must be less than|matches no process|is also in|a second document|match is missing|!!binary`)

// TestSchema compares what the schema refuses with what Load refuses.
func TestSchema(t *testing.T) {
	s := published(t)
	var accepted, refused, onlyLoad int
	for _, doc := range append(keyCases(), problemDocs(t)...) {
		v, err := toJSON(doc)
		if err != nil {
			continue // invalid YAML, or no JSON, such as NaN
		}
		_, loadErr := loadText(t, doc, nil)
		schemaErr := s.Validate(v)
		all := true // problems are beyond the schema
		if loadErr != nil {
			for line := range strings.SplitSeq(loadErr.Error(), "\n") {
				all = all && beyond.MatchString(line)
			}
		}
		switch {
		case loadErr == nil && schemaErr == nil:
			accepted++
		case loadErr != nil && schemaErr != nil:
			refused++
		case loadErr != nil && all:
			onlyLoad++
		default:
			t.Errorf("%s\nLoad: %v\nschema: %v", doc, loadErr, schemaErr)
		}
	}
	t.Logf("%d accepted, %d refused, %d refused by Load alone", accepted, refused, onlyLoad)
	if accepted < 200 || refused < 2000 || onlyLoad > refused/10 {
		t.Error("the cases are not what they should be")
	}
}

func problemDocs(t *testing.T) []string {
	var docs []string
	for _, c := range problemCases(t) {
		docs = append(docs, c.doc)
	}
	return docs
}

// keyCases returns a file for each key and each of several values.
func keyCases() []string {
	values := []string{
		"true", "yes", "auto", "null", "2001-01-01", "'true'", "''", "a", "a b", "'a\tb'", "'" + strings.Repeat("x", maxText+1) + "'",
		"1", "0", "-1", "5", "1.5", "0.5", "1e3", "16777216", "99999999999999999999", "0x100000", "'1'",
		"5s", "10m", "-5s", "64MiB", "1.5GiB", "64 MB", "50%", "'7 %'", "-7%",
		"[]", "[a]", "[1]", "[0]", "['*']", "[cpu]", "[observe]", "[[a]]", "[null]", "[cpu, true]", "[{}]", "[\"a\\x01\"]", "['[^]']",
		"{}", "{a: b}", "{a: 1}", "{'a b': c}", "{a: [b]}", "{a: ''}",
		":9", "localhost:9090", "'[::1]:9'", "'[x]:9'", ":99999", "http://x:1", "http://a@b:1", "inline", "grpc", "debug", "json",
	}
	var docs []string
	var each func(f *field, prefix, suffix string)
	each = func(f *field, prefix, suffix string) {
		for _, c := range f.fields {
			switch c.kind {
			case section:
				each(c, prefix+c.key+": {", "}"+suffix)
			case override:
				each(c.child("match"), prefix+c.key+": [{spans: true, match: {", "}}]"+suffix)
			}
			for _, v := range values {
				docs = append(docs, prefix+c.key+": "+v+suffix)
			}
		}
	}
	each(root(), "{", "}")
	return docs
}
