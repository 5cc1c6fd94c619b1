package loupe_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// directions are the directions of imports that docs/ARCHITECTURE.md states, for direct and indirect imports. A path stands
// for the package and for all packages below it; "" is the root package alone, "*" is every package but those of the row.
var directions = []struct{ packages, never []string }{
	{[]string{"event"}, []string{"*"}},
	{[]string{"internal/codepatch", "internal/native"}, []string{"*"}},
	{[]string{"glti"}, []string{"*"}},
	{[]string{"memtrace"}, []string{"", "event", "internal/gobin", "internal/goproc", "internal/probe"}},
	{
		[]string{"census", "checkup", "live", "sched", "trace", "internal/export", "internal/gostate", "internal/memory", "internal/record", "internal/report",
			"internal/stream", "internal/tracefile", "internal/tui"},
		[]string{"", "internal/goproc", "internal/perf", "internal/probe", "internal/ptrace"},
	},
	{[]string{"internal/goproc"}, []string{"", "internal/perf", "internal/probe"}},
	{[]string{"internal/gobin"}, []string{"internal/goproc", "internal/ptrace"}},
	{[]string{"cmd/loupe", "internal/cli"}, []string{"internal/agent"}}, // which links client-go
}

// TestImports checks the directions of imports. Imports of tests are exempt.
func TestImports(t *testing.T) {
	imports := readImports(t)
	for _, d := range directions {
		checked := 0
		for _, pkg := range slices.Sorted(maps.Keys(imports)) {
			if !within(pkg, d.packages) {
				continue
			}
			checked++
			for _, path := range reached(imports, pkg) {
				if to := path[len(path)-1]; within(to, d.never) && !within(to, d.packages) {
					t.Errorf("an import in the wrong direction: %q", path)
				}
			}
		}
		if checked == 0 {
			t.Errorf("no package in %v", d.packages)
		}
	}
}

// within reports whether a package is in a list of a direction.
func within(pkg string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return p == "*" || pkg == p || p != "" && strings.HasPrefix(pkg, p+"/")
	})
}

// reached returns, for each package of Loupe that a package imports directly or indirectly, a chain of imports to it.
func reached(imports map[string][]string, pkg string) [][]string {
	var chains [][]string
	seen := map[string]bool{pkg: true}
	for queue := [][]string{{pkg}}; len(queue) > 0; queue = queue[1:] {
		for _, next := range imports[queue[0][len(queue[0])-1]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			chain := append(slices.Clone(queue[0]), next)
			chains, queue = append(chains, chain), append(queue, chain)
		}
	}
	return chains
}

// readImports returns the packages of Loupe that each package of Loupe imports, as paths below the root.
func readImports(t *testing.T) map[string][]string {
	const module = "github.com/loupe-go/loupe"
	imports := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		ours := imports[pkg]
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if below, ok := strings.CutPrefix(imported, module); ok {
				ours = append(ours, strings.TrimPrefix(below, "/"))
			}
		}
		imports[pkg] = ours
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}
