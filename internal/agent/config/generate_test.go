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
