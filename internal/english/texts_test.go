package english

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// counted finds a number with a noun in the plural, in a format.
var counted = regexp.MustCompile(`%[dv] (?:[a-z]+ )?[a-z]+s\b`)

// notCounted are the texts in which the word after a number is no noun in the plural, or the number is never 1.
var notCounted = regexp.MustCompile(`%[dv] (?:ends|is|has|comes|executes|belongs|traces|stops|was|does|itself|runs|says|tells|needs|bytes|lanes|` +
	`begins|less|minus|seconds|microseconds|nanoseconds|as|of this|on this|among|holds|cannot|has ended|addresses)\b|` +
	`at most %d|more than %[dv]|less than|matches %d processes|, %d as|%d things?$|below %d|between 0 and %d|one of %d|status %d|order of the events of %d threads|%v and|goroutine %d (?:starts|lets)|%d ticks (?:a|after|per)`)

// plumbing are the packages whose errors are about damaged files and foreign memory, for developers: they have no texts for
// users. generated and tools likewise.
var plumbing = regexp.MustCompile(`^(bench|scripts|docs|internal/(gobin|codepatch|ptrace|tracetruth|testvm|testtarget|realtarget|testreport|testcmd|` +
	`export/exporttest|probe/inline|probe/csrc|goproc/(heapbooks|heapread|heapvalue|labels|gread|runtimelayout|verify)\.go)|trace/raw)`)

// TestTexts looks for texts that would say "1 things".
func TestTexts(t *testing.T) {
	const root = "../.."
	texts := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := filepath.Base(name); base == "testdata" || base == ".git" || plumbing.MatchString(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || plumbing.MatchString(name) {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			texts++
			if found := counted.FindString(text); found != "" && !notCounted.MatchString(text) {
				t.Errorf("%s:%d: %q in %q: use english.Count", name, fset.Position(lit.Pos()).Line, found, text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if texts < 1000 {
		t.Errorf("only %d texts were read", texts)
	}
}
