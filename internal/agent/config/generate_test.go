package config

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/term"
)

// readDocs returns the documentation of keys, by Go type and key.
func readDocs(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return true
		}
		for _, f := range s.Fields.List {
			if f.Tag == nil {
				continue
			}
			tag, err := strconv.Unquote(f.Tag.Value)
			if err != nil {
				t.Fatal(err)
			}
			key := reflect.StructTag(tag).Get("key")
			doc := sentence(f.Names[0].Name, f.Doc.Text())
			if doc == "" {
				t.Errorf("no documentation: %s.%s", spec.Name, key)
			}
			docs[spec.Name.Name+":"+key] = doc
		}
		return true
	})
	return docs
}

// sentence makes the documentation of a key of that of a Go field, which begins with its name.
func sentence(name, doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	if rest, ok := strings.CutPrefix(doc, name+" "); ok {
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
		doc = strings.ToUpper(rest[:1]) + rest[1:]
	}
	return doc
}

// example returns the file with every key.
func exampleFile(docs map[string]string) []byte {
	var out bytes.Buffer
	fmt.Fprint(&out, `# yaml-language-server: $schema=config.schema.json
#
# Every key of the configuration of loupe-agent, with its default. A file needs only the keys that it changes.
`)
	var write func(f *field, in reflect.Value, indent string)
	write = func(f *field, in reflect.Value, indent string) {
		for _, c := range f.fields {
			if c.alias != "" {
				continue
			}
			if c.kind == section || indent == "" {
				fmt.Fprintln(&out)
			}
			for line := range strings.SplitSeq(term.Wrap(docs[c.owner+":"+c.key], 100-len(indent), 0), "\n") {
				fmt.Fprintf(&out, "%s# %s\n", indent, line)
			}
			switch v := c.value(in); c.kind {
			case section:
				fmt.Fprintf(&out, "%s%s:\n", indent, c.key)
				write(c, v, indent+"  ")
			case override:
				fmt.Fprintf(&out, "%s%s: []\n", indent, c.key)
			default:
				fmt.Fprintf(&out, "%s%s: %s\n", indent, c.key, c.render(v))
			}
		}
	}
	write(root(), reflect.ValueOf(Default()).Elem(), "")
	return out.Bytes()
}

// TestExample loads the file with every key: it changes nothing.
func TestExample(t *testing.T) {
	file := filepath.Join(deploy, "loupe-agent.yaml")
	current(t, file, exampleFile(readDocs(t)))
	c, err := Source{File: file}.Load()
	if err != nil {
		t.Fatal(err)
	}
	without, err := Source{}.Load()
	if err != nil {
		t.Fatal(err)
	}
	if changes := Diff(without, c); len(changes) > 0 {
		t.Error(changes)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := toJSON(string(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := published(t).Validate(doc); err != nil {
		t.Error(err)
	}
	other, err := os.ReadFile("testdata/ebpf-tracer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = toJSON(string(other)); err != nil {
		t.Fatal(err)
	}
	if err := published(t).Validate(doc); err != nil {
		t.Error(err)
	}
}

// reference returns the tables of keys for docs/AGENT.md.
func reference(docs map[string]string) string {
	var out strings.Builder
	var write func(f *field, in reflect.Value, title, doc string)
	write = func(f *field, in reflect.Value, title, doc string) {
		if title != "" {
			fmt.Fprintf(&out, "\n### %s\n", title)
		}
		if doc != "" {
			fmt.Fprintf(&out, "\n%s\n", doc)
		}
		out.WriteString("\n| key | value | default | meaning |\n|---|---|---|---|\n")
		for _, c := range f.fields {
			if c.kind != section {
				out.WriteString(row(c, c.value(in), docs[c.owner+":"+c.key]))
			}
		}
		for _, c := range f.fields {
			if c.kind == section {
				write(c, c.value(in), c.path, docs[c.owner+":"+c.key])
			}
		}
	}
	write(root(), reflect.ValueOf(Default()).Elem(), "", "")
	return out.String()
}

// row is a row of a table of keys.
func row(f *field, v reflect.Value, doc string) string {
	def := ""
	if f.alias == "" && f.kind != override {
		if def = f.render(v); def == `""` || def == "[]" || def == "{}" {
			def = ""
		} else {
			def = "`" + def + "`"
		}
	}
	if f.env != "" {
		doc += " Environment: `" + f.env + "`"
		if f.milli {
			doc += ", in milliseconds"
		}
		doc += "."
	}
	if f.flag != "" {
		doc += " Flag: `--" + f.flag + "`."
	}
	if f.restart {
		doc += " Requires a restart."
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.key, valueName(f), def, doc)
}

// valueName says what the value of a key can be.
func valueName(f *field) string {
	names := map[kind]string{boolean: "true, false", integer: "number", number: "number", ratio: "ratio", size: "size", duration: "duration", text: "text",
		override: "list of mappings with `match`, which has the keys of `targets`, keys of `tracing`, and `sampling`"}
	elements := map[*format]string{formats["glob"]: "patterns", formats["label"]: "patterns", formats["user"]: "users", formats["header"]: "texts"}
	switch {
	case f.enum != nil && f.kind == list:
		return "list of " + strings.Join(f.enum, ", ")
	case f.enum != nil:
		return strings.Join(f.enum, ", ")
	case f.kind == list && f.elem == integer:
		return "list of numbers"
	case f.kind == list:
		return "list of " + elements[f.format]
	case f.kind == mapping:
		return "mapping of names to " + elements[f.format]
	case f.format == formats["address"]:
		return "address"
	}
	name := names[f.kind]
	if f.bounded {
		name += ", " + f.description
	}
	return name
}

const manual = "../../../docs/AGENT.md"

// TestReference compares the tables of the manual with the description.
func TestReference(t *testing.T) {
	doc, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "go test ./internal/agent/config -update. -->\n"
	before, _, ok := strings.Cut(string(doc), mark)
	if !ok {
		t.Fatalf("%s has no line that ends in %s", manual, mark)
	}
	current(t, manual, []byte(before+mark+reference(readDocs(t))))
}

// TestManual loads the examples of the manual.
func TestManual(t *testing.T) {
	doc, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	for _, e := range examples {
		c := mustLoad(t, e[1], nil)
		if len(c.Warnings()) > 0 {
			t.Errorf("%s: %v", e[1], c.Warnings())
		}
	}
	if len(examples) < 2 {
		t.Errorf("only %d examples", len(examples))
	}
	_, loadErr := loadText(t, "# a comment\ntargets:\n  exclude_pod: []\nsampling:\n  min_ratio: 5\n", nil)
	for line := range strings.SplitSeq(loadErr.Error(), "\n") {
		if line = strings.Replace(line, "c.yaml", "loupe-agent.yaml", 1); !strings.Contains(string(doc), "    "+line+"\n") {
			t.Errorf("the manual has no line %s", line)
		}
	}
}
