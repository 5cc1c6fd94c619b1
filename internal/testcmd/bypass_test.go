package testcmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// starters are the functions that start commands, by the package that has them.
var starters = map[string][]string{
	"os/exec": {"Command", "CommandContext"},
	"os":      {"StartProcess"},
	"syscall": {"ForkExec", "StartProcess"},
}

// testPackages are the packages that only tests use, without this one.
var testPackages = []string{"internal/testtarget", "internal/realtarget", "internal/testcollector", "internal/testkube", "internal/testpostgres"}

// TestNoOtherCommands looks for tests that start a command without a deadline and in a world that is not defined.
func TestNoOtherCommands(t *testing.T) {
	const root = "../.."
	allowed := map[string]bool{
		"example_test.go":            true, // shows what users of package loupe write
		"example_live_test.go":       true, // the same
		"glti/native_linux_test.go":  true, // is of another module, which requires as little as possible
		"glti/process_linux_test.go": true, // the same
		"memtrace/process_test.go":   true, // the same
	}
	var files int
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := filepath.Base(path); base == "testdata" || base == ".git" || name == "internal/testcmd" {
				return filepath.SkipDir
			}
			return nil
		}
		test := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".go") && slices.Contains(testPackages, filepath.Dir(name))
		if !test || allowed[name] {
			return nil
		}
		files++
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, pos := range starts(file) {
			t.Errorf("%s:%d starts a command: use package testcmd, which gives it a deadline and a defined environment", name, fset.Position(pos).Line)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

// starts returns where a file uses a function that starts commands.
func starts(file *ast.File) (found []token.Pos) {
	names := map[string][]string{} // by the name that the file uses for the package
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		if funcs, ok := starters[path]; ok {
			name := filepath.Base(path)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			names[name] = funcs
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(names[pkg.Name], sel.Sel.Name) {
				found = append(found, sel.Pos())
			}
		}
		return true
	})
	return found
}

func TestStarts(t *testing.T) {
	const source = `package p
import ("os/exec"; start "os"; "syscall")
var _ = exec.Command
func f() { exec.CommandContext(nil, ""); start.StartProcess("", nil, nil); syscall.ForkExec("", nil, nil); start.Exit(1); exec.LookPath("") }`
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if found := starts(file); len(found) != 4 {
		t.Errorf("%d of 4 found", len(found))
	}
}
