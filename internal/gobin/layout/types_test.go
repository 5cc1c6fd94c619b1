package layout

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/wanted"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestSourceAgrees computes every offset of the release that runs the test a second way, without a compiler and without
// DWARF: from the declarations in the runtime's source and the sizes that go/types knows.
func TestSourceAgrees(t *testing.T) {
	out, err := testcmd.Command(t, "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range arches {
		l, err := ForVersion(runtime.Version(), arch)
		if err != nil {
			t.Fatal(err)
		}
		if l.Source != SourceTable {
			t.Skipf("%s is not in the table; add it as doc.go says", runtime.Version())
		}
		if n := compareWithSource(t, l, strings.TrimSpace(string(out))); n < 1000 {
			t.Errorf("%s: only %d fields compared", arch, n)
		}
	}
}

// compareWithSource compares a layout with the source in a GOROOT and returns how many fields both have.
func compareWithSource(t *testing.T, l *Layout, goroot string) int {
	source := newSourceTypes(goroot, l.Arch)
	compared := 0
	for _, w := range wanted.Structs {
		size, ok := l.Size(w.Name)
		if !ok {
			continue // the release does not have it
		}
		named, err := source.lookup(w)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := source.sizes.Sizeof(named); uint64(got) != size {
			t.Errorf("%s/%s: %s has %d bytes in the table, %d in the source", l.GoVersion, l.Arch, w.Name, size, got)
		}
		fields := map[string]Field{}
		source.flatten(named, w, "", 0, fields)
		for field, want := range fields {
			path := w.Name + "." + field
			if got, ok := l.Field(path); !ok || got != want {
				t.Errorf("%s/%s: %s is %+v (%v) in the table, %+v in the source", l.GoVersion, l.Arch, path, got, ok, want)
			}
			compared++
		}
		for _, path := range l.Fields(w.Name) {
			if _, ok := fields[strings.TrimPrefix(path, w.Name+".")]; !ok {
				t.Errorf("%s/%s: %s is not in the source", l.GoVersion, l.Arch, path)
			}
		}
	}
	return compared
}

// sourceTypes type-checks packages of the standard library, declarations alone, for an architecture.
type sourceTypes struct {
	build build.Context
	fset  *token.FileSet
	sizes types.Sizes
	pkgs  map[string]*types.Package
}

func newSourceTypes(goroot, arch string) *sourceTypes {
	ctx := build.Default
	ctx.GOROOT, ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = goroot, "linux", arch, false
	return &sourceTypes{build: ctx, fset: token.NewFileSet(), sizes: types.SizesFor("gc", arch), pkgs: map[string]*types.Package{}}
}

// Import implements types.Importer.
func (s *sourceTypes) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p, ok := s.pkgs[path]; ok {
		return p, nil
	}
	dir := filepath.Join(s.build.GOROOT, "src", path)
	if strings.HasPrefix(path, "golang.org/") {
		dir = filepath.Join(s.build.GOROOT, "src", "vendor", path)
	}
	bp, err := s.build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range bp.GoFiles {
		f, err := parser.ParseFile(s.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: s, Sizes: s.sizes, IgnoreFuncBodies: true, FakeImportC: true}
	p, err := conf.Check(path, s.fset, files, nil)
	if err != nil {
		return nil, err
	}
	s.pkgs[path] = p
	return p, nil
}

// lookup returns the type of a wanted struct by any of its names.
func (s *sourceTypes) lookup(w wanted.Struct) (types.Type, error) {
	var failed error
	for _, name := range append([]string{w.Name, w.Variable}, w.Also...) {
		dot := strings.LastIndexByte(name, '.')
		if dot < 0 {
			continue
		}
		p, err := s.Import(name[:dot])
		if err != nil {
			failed = err
			continue
		}
		if o := p.Scope().Lookup(name[dot+1:]); o != nil {
			return o.Type(), nil
		}
	}
	return nil, fmt.Errorf("%s is not in the source: %w", w.Name, failed)
}

// flatten adds the fields of a type by path.
func (s *sourceTypes) flatten(t types.Type, w wanted.Struct, prefix string, base int64, fields map[string]Field) {
	add := func(name string, off int64, size int64) {
		fields[w.Field(prefix+name)] = Field{uint32(base + off), uint32(size)}
	}
	const word = 8
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if u.Info()&types.IsString != 0 {
			add("str", 0, word)
			add("len", word, word)
		}
	case *types.Slice:
		add("array", 0, word)
		add("len", word, word)
		add("cap", 2*word, word)
	case *types.Interface:
		if u.NumMethods() > 0 {
			add("tab", 0, word)
		} else {
			add("_type", 0, word)
		}
		add("data", word, word)
	case *types.Struct:
		var vars []*types.Var
		for i := range u.NumFields() {
			vars = append(vars, u.Field(i))
		}
		offsets := s.sizes.Offsetsof(vars)
		for i, v := range vars {
			size := s.sizes.Sizeof(v.Type())
			if v.Name() == "_" || size == 0 {
				continue
			}
			add(v.Name(), offsets[i], size)
			if !w.Shallow && !isAtomic(v.Type()) {
				s.flatten(v.Type(), w, w.Field(prefix+v.Name())+".", base+offsets[i], fields)
			}
		}
	}
}

// isAtomic tells whether a type is one of the atomic packages' wrappers.
func isAtomic(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Name() == "atomic"
}
