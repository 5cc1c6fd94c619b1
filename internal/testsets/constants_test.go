package testsets

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// headers has the C headers that sets share. Others are in the directory of their Go half.
const headers = "../probe/csrc"

// asIn is the part of a comment that names the C source that has the same constants.
var asIn = regexp.MustCompile(`\bas in (\w+\.[ch])\b`)

// TestConstants compares the constants of Go that say that they are as in a C source with the enumerators of that source.
func TestConstants(t *testing.T) {
	compared := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			compared += compareConstants(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if compared < 100 {
		t.Errorf("%d constants were compared", compared)
	}
}

// compareConstants compares those of a Go file, and returns their number.
func compareConstants(t *testing.T, path string) (compared int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	if !asIn.Match(text) {
		return 0
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		t.Error(err)
		return 0
	}
	info := constantsOf(set, file)
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.ValueSpec)
			source := asIn.FindStringSubmatch(group.Doc.Text() + spec.Doc.Text() + spec.Comment.Text())
			if source == nil {
				continue
			}
			enumerators := enumeratorsOf(t, filepath.Dir(path), source[1])
			for _, name := range spec.Names {
				c, ok := info.Defs[name].(*types.Const)
				if !ok {
					t.Errorf("%s: %s is no constant", path, name.Name)
					continue
				}
				compared++
				enumerator, value := enumerators.find(name.Name)
				switch {
				case enumerator == "":
					t.Errorf("%s: %s has no enumerator for %s", path, source[1], name.Name)
				case value != c.Val().ExactString():
					t.Errorf("%s: %s is %s; %s in %s is %s", path, name.Name, c.Val(), enumerator, source[1], value)
				}
			}
		}
	}
	return compared
}

// constantsOf returns the values of the constants of a file that do not depend on others.
func constantsOf(set *token.FileSet, file *ast.File) *types.Info {
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Error: func(error) {}, FakeImportC: true, Importer: noImporter{}}
	config.Check("p", set, []*ast.File{file}, info) // errors are those of what is in other files
	return info
}

type noImporter struct{}

func (noImporter) Import(path string) (*types.Package, error) {
	return nil, fmt.Errorf("%s is not imported", path)
}

// enumerators are values by name.
type enumerators map[string]string

// find returns the enumerator that a constant of Go is as: without regard to case and underscores, a prefix LOUPE, or a prefix note, flag or
// max of the constant.
func (e enumerators) find(constant string) (name, value string) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for _, prefix := range []string{"", "note", "flag", "max"} {
		rest, ok := strings.CutPrefix(constant, prefix)
		if !ok {
			continue
		}
		for name, value := range e {
			if plain(name) == plain(rest) || plain(name) == "loupe"+plain(rest) {
				return name, value
			}
		}
	}
	return "", ""
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cDefine  = regexp.MustCompile(`(?m)^#define (\w+) (\d+|0x[0-9a-f]+)$`)
	cEnum    = regexp.MustCompile(`\benum\s*\w*\s*\{([^}]*)\}`)
)

// enumeratorsOf returns the enumerators of a C source, and the numbers that it defines. Their expressions are also ones of Go.
func enumeratorsOf(t *testing.T, dir, name string) enumerators {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if os.IsNotExist(err) {
		text, err = os.ReadFile(filepath.Join(headers, name))
	}
	if err != nil {
		t.Fatal(err)
	}
	source := "package p\n"
	for _, enum := range cEnum.FindAllStringSubmatch(cComment.ReplaceAllString(string(text), ""), -1) {
		next := "0"
		for item := range strings.SplitSeq(enum[1], ",") {
			name, value, ok := strings.Cut(item, "=")
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if !ok {
				value = next
			}
			source += fmt.Sprintf("const %s = %s\n", name, strings.TrimSpace(value))
			next = name + " + 1"
		}
	}
	for _, define := range cDefine.FindAllStringSubmatch(string(text), -1) {
		source += fmt.Sprintf("const %s = %s\n", define[1], define[2])
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := enumerators{}
	for ident, object := range constantsOf(set, file).Defs {
		if c, ok := object.(*types.Const); ok {
			found[ident.Name] = c.Val().ExactString()
		}
	}
	return found
}
