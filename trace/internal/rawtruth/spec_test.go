package rawtruth

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

// goRoot returns where a release's source is.
func (r release) goRoot(t *testing.T) string {
	t.Helper()
	out, err := r.command(t, "", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A theirSpec is an entry of a toolchain's table of events.
type theirSpec struct {
	name, args string // args separated by spaces
	flags      string // identifiers that are set to something, separated by spaces
	positional []string
}

// readTable returns a toolchain's table of events by the name of the constant, and the values of those constants.
func readTable(t *testing.T, file, table string) (specs map[string]theirSpec, values map[string]int) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	specs, values = make(map[string]theirSpec), make(map[string]int)
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		first := 0 // the value of iota 0
		for i, s := range d.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if d.Tok == token.CONST {
				if len(v.Values) == 1 {
					first = constant(v.Values[0], i)
				}
				values[v.Names[0].Name] = first + i
			} else if v.Names[0].Name == table {
				for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
					kv := e.(*ast.KeyValueExpr)
					specs[kv.Key.(*ast.Ident).Name] = readSpec(kv.Value.(*ast.CompositeLit))
				}
			}
		}
	}
	if len(specs) < 40 {
		t.Fatalf("%s: only %d events", file, len(specs))
	}
	return specs, values
}

// constant returns what a constant in place i is, less i: iota, a number plus iota, or a number.
func constant(e ast.Expr, i int) int {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, _ := strconv.Atoi(e.Value)
		return n - i
	case *ast.BinaryExpr:
		if lit, ok := e.X.(*ast.BasicLit); ok {
			n, _ := strconv.Atoi(lit.Value)
			return n
		}
	}
	return 0
}

// readSpec returns what an entry of a table says.
func readSpec(lit *ast.CompositeLit) theirSpec {
	var s theirSpec
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			s.positional = append(s.positional, text(e))
			continue
		}
		switch key := kv.Key.(*ast.Ident).Name; key {
		case "Name":
			s.name = text(kv.Value)
		case "Args":
			s.args = text(kv.Value)
		case "HasData", "IsStack", "IsTimedEvent", "Experiment":
			s.flags += key + " "
		}
	}
	return s
}

// text returns a string, or the strings of a list separated by spaces, or a name.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return cmp.Or(s, e.Value)
	case *ast.Ident:
		return e.Name
	case *ast.CompositeLit:
		var all []string
		for _, e := range e.Elts {
			all = append(all, text(e))
		}
		return strings.Join(all, " ")
	}
	return ""
}

// TestSpecsV2 compares the specifications with the toolchains' own tables.
func TestSpecsV2(t *testing.T) {
	files := map[int]string{
		22: "v2/event/go122/event.go", 23: "event/go122/event.go", 24: "event/go122/event.go", 25: "tracev2/events.go",
		26: "tracev2/events.go", 27: "tracev2/events.go",
	}
	versions := map[int]raw.Version{22: raw.Go122, 23: raw.Go123, 24: raw.Go123, 25: raw.Go125, 26: raw.Go126, 27: raw.Go126}
	for _, rel := range releases(t) {
		version, ok := versions[rel.minor]
		if !ok {
			continue
		}
		t.Run("go"+rel.version, func(t *testing.T) {
			theirs, values := readTable(t, filepath.Join(rel.goRoot(t), "src/internal/trace", files[rel.minor]), "specs")
			ours := version.Specs()
			count := 0
			for key, their := range theirs {
				typ := values[key]
				if version == raw.Go125 && raw.Type(typ) == raw.EvEndOfGeneration {
					continue // Go 1.25 knows it, but has it in no trace
				}
				if typ >= len(ours) {
					t.Errorf("%s (%d) is missing", key, typ)
					continue
				}
				if version == raw.Go122 && their.name == "CPUSample" {
					their.args = "time m p g stack" // see v2Specs
				}
				if got := describe(ours[typ]); got != fmt.Sprintf("%s(%s) %s", their.name, their.args, their.flags) {
					t.Errorf("type %d is %s, theirs is %+v", typ, got, their)
				}
				count++
			}
			if named(ours) != count {
				t.Errorf("%d events, they have %d", named(ours), count)
			}
		})
	}
}

// describe returns a specification in the form that theirs are compared in.
func describe(s raw.Spec) string {
	text := fmt.Sprintf("%s(%s) ", s.Name, strings.Join(s.Args, " "))
	for _, flag := range []struct {
		set  bool
		name string
	}{{s.HasData, "HasData "}, {s.IsStack, "IsStack "}, {s.Timed, "IsTimedEvent "}, {s.Experiment == raw.AllocFree, "Experiment "}} {
		if flag.set {
			text += flag.name
		}
	}
	return text
}

// named returns how many of the types are there.
func named(specs []raw.Spec) (n int) {
	for _, s := range specs {
		if s.Name != "" {
			n++
		}
	}
	return n
}

// TestSpecsV1 compares the specifications of V1 versions with the toolchains' own tables.
func TestSpecsV1(t *testing.T) {
	versions := map[int]raw.Version{18: raw.Go111, 20: raw.Go119, 21: raw.Go121}
	for _, rel := range releases(t) {
		version, ok := versions[rel.minor]
		if !ok {
			continue
		}
		t.Run("go"+rel.version, func(t *testing.T) {
			theirs, values := readTable(t, filepath.Join(rel.goRoot(t), "src/internal/trace/parser.go"), "EventDescriptions")
			ours := version.Specs()
			if named(ours) != len(theirs)-1 { // theirs has EvNone
				t.Errorf("%d events, they have %d", named(ours), len(theirs)-1)
			}
			for key, their := range theirs {
				if key == "EvNone" {
					continue
				}
				typ := values[key]
				if typ >= len(ours) || ours[typ].Name == "" {
					t.Errorf("%s (%d) is missing", key, typ)
					continue
				}
				if got, want := describe(ours[typ]), describeV1(their); got != want {
					t.Errorf("type %d is %s, want %s", typ, got, want)
				}
			}
		})
	}
}

// describeV1 returns an entry of a V1 table, which is a name, a version, whether there is a stack, and the arguments, with
// what is implied in it.
func describeV1(s theirSpec) string {
	name, stack, args := s.positional[0], s.positional[2] == "true", s.positional[3]
	switch name {
	case "String":
		return "String(id) HasData "
	case "Stack":
		return "Stack(" + args + ") IsStack "
	case "Batch", "Frequency", "TimerGoroutine":
		return name + "(" + args + ") "
	case "GoCreate":
		args = "g new_stack" // not stack twice
	}
	all := append([]string{"dt"}, strings.Fields(args)...)
	if stack {
		all = append(all, "stack")
	}
	text := name + "(" + strings.Join(all, " ") + ") "
	if name == "UserLog" {
		text += "HasData "
	}
	return text + "IsTimedEvent "
}
