package overlay

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseArgs(t *testing.T) {
	for _, test := range []struct {
		verb, args, flags string
		want              request
	}{
		{"build", "./...", "", request{rest: []string{"./..."}}},
		{"build", "-tags=a,b -o x .", "", request{tags: "a,b", rest: []string{"-o", "x", "."}}},
		{"build", "-C dir -overlay user.json --tags a .", "", request{dir: "dir", overlay: "user.json", tags: "a", rest: []string{"."}}},
		{"build", "-ldflags -tags=x .", "", request{rest: []string{"-ldflags", "-tags=x", "."}}},
		{"build", "-race -v .", "-tags=q -overlay=o.json", request{tags: "q", overlay: "o.json", rest: []string{"-race", "-v", "."}}},
		{"build", "-tags= .", "'-tags=a b'", request{rest: []string{"."}}},
		{"build", ".", "'-tags=a b'", request{tags: "a b", rest: []string{"."}}},
		{"run", "-tags a . -tags b", "", request{tags: "a", rest: []string{".", "-tags", "b"}}},
		{"run", "-exec env . -overlay=b", "", request{rest: []string{"-exec", "env", ".", "-overlay=b"}}},
		{"test", "./... -run X -tags b", "", request{tags: "b", rest: []string{"./...", "-run", "X"}}},
		{"test", "./... -update -tags b", "", request{tags: "b", rest: []string{"./...", "-update"}}},
		{"test", "./... -update value -tags b", "", request{tags: "b", rest: []string{"./...", "-update", "value"}}},
		{"test", "./... -v value -tags b", "", request{rest: []string{"./...", "-v", "value", "-tags", "b"}}},
		{"test", "./... -args -tags b", "", request{rest: []string{"./...", "-args", "-tags", "b"}}},
		{"test", "-v -count 1 -tags b ./...", "", request{tags: "b", rest: []string{"-v", "-count", "1", "./..."}}},
		{"test", "-test.run X -overlay o ./...", "", request{overlay: "o", rest: []string{"-test.run", "X", "./..."}}},
		{"list", "-f {{.Dir}} -json=Dir -tags b std", "", request{tags: "b", rest: []string{"-f", "{{.Dir}}", "-json=Dir", "std"}}},
		{"vet", "-printf.funcs f -tags b ./...", "", request{tags: "b", rest: []string{"-printf.funcs", "f", "./..."}}},
		{"build", "-- -tags=a", "", request{rest: []string{"--", "-tags=a"}}},
	} {
		got, err := parseArgs(test.verb, strings.Fields(test.args), test.flags)
		if err != nil {
			t.Errorf("%s %s: %v", test.verb, test.args, err)
			continue
		}
		if got.dir != test.want.dir || got.overlay != test.want.overlay || got.tags != test.want.tags || !slices.Equal(got.rest, test.want.rest) {
			t.Errorf("go %s %s with GOFLAGS=%s: %+v, expected %+v", test.verb, test.args, test.flags, got, test.want)
		}
	}
}

// TestPackagesOfArgs checks which arguments are packages or files, and what go list needs.
func TestPackagesOfArgs(t *testing.T) {
	for _, test := range []struct{ verb, args, packages, lists, rest string }{
		{"build", "-race -agent a ./x ./y", "./x ./y", "-race", "-race ./x ./y"},
		{"build", "-mod mod --agent=a,b -modfile=x.mod -v", "", "-mod mod -modfile=x.mod", "-mod mod -modfile=x.mod -v"},
		{"build", "-agent=a -- -x", "-x", "", "-- -x"},
		{"run", "-agent=a ./x -agent=b y", "./x", "", "./x -agent=b y"},
		{"run", "-agent=a a.go b.go c d.go", "a.go b.go", "", "a.go b.go c d.go"},
		{"run", "-agents=native", "", "", ""},
		{"test", "-agent=a ./x ./y -run Z -agents native", "./x ./y", "", "./x ./y -run Z"},
		{"test", "-v ./x -update y -agent=a -args -agent=b", "./x", "", "-v ./x -update y -args -agent=b"},
	} {
		r, err := parseArgs(test.verb, strings.Fields(test.args), "")
		if got := strings.Join(r.packages, " "); err != nil || got != test.packages {
			t.Errorf("go %s %s: packages %q, %v, expected %q", test.verb, test.args, got, err, test.packages)
		}
		if lists, rest := strings.Join(r.lists, " "), strings.Join(r.rest, " "); lists != test.lists || rest != test.rest || !r.linksAgents() {
			t.Errorf("go %s %s: %q and %q, expected %q and %q", test.verb, test.args, lists, rest, test.lists, test.rest)
		}
	}
}

func TestParseArgsRefused(t *testing.T) {
	for _, args := range []string{"-compiler=gccgo .", "-compiler gccgo .", "-linkshared ."} {
		if _, err := parseArgs("build", strings.Fields(args), ""); err == nil {
			t.Errorf("go build %s: no error", args)
		}
	}
	if _, err := parseArgs("build", nil, "-compiler=gccgo"); err == nil {
		t.Error("GOFLAGS=-compiler=gccgo: no error")
	}
	if _, err := parseArgs("build", nil, "'-tags=a"); err == nil {
		t.Error("GOFLAGS='-tags=a without the second quote: no error")
	}
}

func TestWithTag(t *testing.T) {
	for tags, want := range map[string]string{"": Tag, "a": "a," + Tag, "a b,c": "a,b,c," + Tag, Tag: Tag} {
		if got := withTag(tags); got != want {
			t.Errorf("withTag(%q) = %q, expected %q", tags, got, want)
		}
	}
}

// TestFlagTable compares the tables of flags with the declarations of flags in the sources of the go command.
func TestFlagTable(t *testing.T) {
	dirs := map[string]string{"work": "build", "test": "test", "list": "list", "vet": "vet", "run": "run", "base": "build"}
	for _, release := range supported() {
		tc := toolchain(t, release)
		checked := 0
		for dir, verb := range dirs {
			files, err := filepath.Glob(filepath.Join(tc.Root, "src/cmd/go/internal", dir, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
				if err != nil {
					t.Fatal(err)
				}
				ast.Inspect(f, func(n ast.Node) bool {
					if name, value, ok := flagDeclared(n); ok {
						checked++
						if got := takesValue(verb, name); got != value {
							t.Errorf("Go %s, %s: takesValue(%s, %s) = %v", release, filepath.Base(file), verb, name, got)
						}
					}
					return true
				})
			}
		}
		if checked < 50 {
			t.Errorf("Go %s: found only %d flags", release, checked)
		}
	}
}

// flagDeclared returns the flag that a call such as cmd.Flag.BoolVar(&cfg.BuildA, "a", false, "") declares, and whether it takes a
// value. Var declares both kinds; of those with values that are optional there are few.
func flagDeclared(n ast.Node) (name string, value, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", false, false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false, false
	}
	at := map[string]int{"Bool": 0, "String": 0, "BoolVar": 1, "StringVar": 1, "IntVar": 1, "DurationVar": 1, "Var": 1}
	i, ok := at[method.Sel.Name]
	wants := 3
	if i == 1 && method.Sel.Name != "Var" {
		wants = 4
	}
	// Package vet also declares the flags of go fix.
	if fun := types.ExprString(method.X); !ok || fun == "CmdFix.Flag" || len(call.Args) != wants || !strings.HasSuffix(fun, "Flag") && fun != "flags" && fun != "cf" {
		return "", false, false
	}
	lit, ok := call.Args[i].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false, false
	}
	name, err := strconv.Unquote(lit.Value)
	optional := []string{"buildvcs", "json", "v"} // IsBoolFlag
	return name, !strings.HasPrefix(method.Sel.Name, "Bool") && !slices.Contains(optional, name), err == nil
}
