package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"
)

// TestKindTable checks that the table describes every constant of type Kind, and each one completely.
func TestKindTable(t *testing.T) {
	constants := kindConstants(t)
	if len(constants) != NumKinds-1 {
		t.Fatalf("%d constants in kind.go, want %d", len(constants), NumKinds-1)
	}
	if !reflect.DeepEqual(kindTable[0], Description{}) {
		t.Errorf("row 0 describes no kind but is %+v", kindTable[0])
	}
	for i, name := range constants {
		k := Kind(i + 1)
		d := k.Describe()
		if d.Name != name || k.String() != name {
			t.Errorf("the name of %s is %q in the table", name, d.Name)
		}
		if got, ok := ParseKind(name); !ok || got != k {
			t.Errorf("ParseKind(%q) = %v, %v", name, got, ok)
		}
		if !slices.Contains(Groups(), d.Group) || d.Sources == 0 || d.Doc == "" {
			t.Errorf("%s: incomplete: group %q, sources %d, doc %q", name, d.Group, d.Sources, d.Doc)
		}
		checkFields(t, name, d.Fields)
	}
	if unknown := Kind(255); unknown.String() != "Kind(255)" || unknown.Describe().Name != "" {
		t.Errorf("kind 255 is %v, %+v", unknown, unknown.Describe())
	}
}

// checkFields checks that fields are those of Event, once each, with a meaning, a key and a unit.
func checkFields(t *testing.T, kind string, fields []Field) {
	names, keys := map[string]bool{}, map[string]bool{}
	for _, f := range fields {
		in, ok := reflect.TypeFor[Event]().FieldByName(f.Name)
		if !ok || names[f.Name] || f.Doc == "" {
			t.Errorf("%s: field %q: in Event: %v, repeated: %v, doc %q", kind, f.Name, ok, names[f.Name], f.Doc)
			continue
		}
		structured := in.Type.Kind() == reflect.Pointer
		if (f.Key == "") != structured || f.Key != "" && keys[f.Key] {
			t.Errorf("%s: field %q has the JSON key %q", kind, f.Name, f.Key)
		}
		if number := in.Type.Kind() == reflect.Int64 || in.Type.Kind() == reflect.Uint64; number != (f.Unit != "") {
			t.Errorf("%s: field %q has unit %q", kind, f.Name, f.Unit)
		}
		names[f.Name], keys[f.Key] = true, true
	}
}

// kindConstants returns the names of the exported constants of type Kind in the order of their numbers.
func kindConstants(t *testing.T) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range file.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		first := g.Specs[0].(*ast.ValueSpec)
		if kind, ok := first.Type.(*ast.Ident); !ok || kind.Name != "Kind" {
			continue
		}
		for _, spec := range g.Specs {
			for _, n := range spec.(*ast.ValueSpec).Names {
				if n.IsExported() {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// TestField checks the fields of a kind by name.
func TestField(t *testing.T) {
	f, ok := ChanMake.Describe().Field("Value")
	if !ok || f.Key != "capacity" || f.Unit != Count || f.Optional {
		t.Errorf("Value of ChanMake: %+v, %v", f, ok)
	}
	if f, ok := GCEnd.Describe().Field("Value"); ok {
		t.Errorf("GCEnd has a Value: %+v", f)
	}
}
