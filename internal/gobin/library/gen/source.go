package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A world is what the sources of one package are compiled with: a Go release, an architecture, and modules.
type world struct {
	release release
	sizes   types.Sizes
	build   build.Context
	main    *sources // the module of the wanted structs; nil for the standard library
	newest  bool     // dependencies have their newest versions, otherwise those that main requires
	command *goCommand
	parsed  *parsedFiles
	loaded  map[string]*pkg // by directory

	depends bool // a package of a dependency was loaded
}

// parsedFiles are files by their paths, which worlds share.
type parsedFiles struct {
	fset  *token.FileSet
	files map[string]*file
}

func newParsedFiles() *parsedFiles {
	return &parsedFiles{fset: token.NewFileSet(), files: map[string]*file{}}
}

func newWorld(cmd *goCommand, parsed *parsedFiles, r release, arch string, main *sources) *world {
	ctx := build.Default
	ctx.GOROOT, ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = r.goroot, "linux", arch, false
	ctx.ToolTags, ctx.ReleaseTags, ctx.BuildTags = r.toolTags, r.releaseTags, nil
	if main != nil {
		ctx.BuildTags = tags[main.path]
	}
	return &world{release: r, sizes: types.SizesFor("gc", arch), build: ctx, main: main, command: cmd, parsed: parsed,
		loaded: map[string]*pkg{}}
}

// A pkg is the parsed declarations of a package.
type pkg struct {
	path   string
	name   string
	module *sources // nil for the standard library
	decls  map[string]declaration
}

// A declaration declares a type, or a group of constants, or a variable.
type declaration struct {
	node ast.Decl // erased
	file *file
}

// A file is a parsed source file.
type file struct {
	position token.Pos
	name     string // of the package
	imports  []*ast.ImportSpec
	decls    map[string]ast.Decl // erased
}

// inModule returns the directory of a package in a module; false if the module does not have it.
func inModule(s *sources, importPath string) (string, bool) {
	rest, ok := strings.CutPrefix(importPath, s.path)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	dir := filepath.Join(s.dir, rest)
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

// inStd returns the directory of a package of the standard library, in which vendored packages can be.
func (w *world) inStd(importPath string) (string, bool) {
	for _, root := range []string{"src", "src/vendor"} {
		dir := filepath.Join(w.release.goroot, root, importPath)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, true
		}
	}
	return "", false
}

// find returns the directory and the module of an imported package.
func (w *world) find(importer *pkg, importPath string) (dir string, module *sources, err error) {
	first, _, _ := strings.Cut(importPath, "/")
	if importer.module == nil || !strings.Contains(first, ".") {
		if dir, ok := w.inStd(importPath); ok {
			return dir, nil, nil
		}
		return "", nil, fmt.Errorf("package %s is not in %s", importPath, goName(w.release.version))
	}
	if dir, ok := inModule(importer.module, importPath); ok {
		return dir, importer.module, nil
	}
	for prefix := importPath; prefix != "."; prefix = path.Dir(prefix) {
		version, ok := w.main.requires[prefix]
		if !ok {
			version, ok = importer.module.requires[prefix]
		}
		if !ok {
			continue
		}
		if w.newest {
			version = "latest"
		}
		s, err := w.command.download(prefix, version)
		if err != nil {
			return "", nil, err
		}
		if dir, ok := inModule(s, importPath); ok {
			w.depends = true
			return dir, s, nil
		}
	}
	return "", nil, fmt.Errorf("package %s is in no module that %s requires", importPath, w.main.path)
}

// load parses the package in a directory. It has no declarations if no file matches.
func (w *world) load(importPath, dir string, module *sources) (*pkg, error) {
	if p, ok := w.loaded[dir]; ok {
		return p, nil
	}
	p := &pkg{path: importPath, module: module, decls: map[string]declaration{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if ok, err := w.build.MatchFile(dir, e.Name()); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		f, err := w.parsed.parse(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if f.name == "documentation" { // go/build ignores these files, too
			continue
		}
		p.name = f.name
		for name, node := range f.decls {
			p.decls[name] = declaration{node, f}
		}
	}
	w.loaded[dir] = p
	return p, nil
}

// parse parses a file, and erases what the layout of structs does not depend on.
func (p *parsedFiles) parse(path string) (*file, error) {
	if f, ok := p.files[path]; ok {
		return f, nil
	}
	node, err := parser.ParseFile(p.fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{position: node.Package, name: node.Name.Name, decls: map[string]ast.Decl{}}
	f.imports = node.Imports
	for _, d := range node.Decls {
		if d, ok := d.(*ast.GenDecl); ok {
			f.add(d)
		}
	}
	p.files[path] = f
	return f, nil
}

// add adds a declaration by the names that it declares. A declaration of constants stays whole: a constant can repeat
// the expression of one before it.
func (f *file) add(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			f.decls[spec.Name.Name] = &ast.GenDecl{TokPos: d.TokPos, Tok: token.TYPE, Specs: []ast.Spec{eraseType(spec)}}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				switch {
				case d.Tok == token.CONST:
					f.decls[name.Name] = d
				case spec.Type != nil:
					// An array's length can be that of a variable.
					v := &ast.ValueSpec{Names: []*ast.Ident{name}, Type: erase(spec.Type)}
					f.decls[name.Name] = &ast.GenDecl{TokPos: d.TokPos, Tok: token.VAR, Specs: []ast.Spec{v}}
				}
			}
		}
	}
	delete(f.decls, "_")
}

// imported returns the package that a name stands for in a file, and its import; nil if the name stands for no package.
func (w *world) imported(importer *pkg, f *file, name string) (*pkg, *ast.ImportSpec, error) {
	var failed error
	for _, spec := range f.imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, nil, err
		}
		if spec.Name != nil && spec.Name.Name != name || spec.Name == nil && !couldBeNamed(importPath, name) {
			continue
		}
		p, err := w.open(importer, importPath)
		if err != nil {
			failed = err
			continue
		}
		if spec.Name != nil || p.name == name {
			return p, spec, nil
		}
	}
	return nil, nil, failed
}

// couldBeNamed reports whether the package of an import path without a name can have the name: the path contains it.
func couldBeNamed(importPath, name string) bool { return strings.Contains(importPath, name) }

// unsafePackage stands for package unsafe, which has no sources to parse.
var unsafePackage = &pkg{path: "unsafe", name: "unsafe"}

// open loads an imported package.
func (w *world) open(importer *pkg, importPath string) (*pkg, error) {
	if importPath == "unsafe" {
		return unsafePackage, nil
	}
	dir, module, err := w.find(importer, importPath)
	if err != nil {
		return nil, err
	}
	return w.load(importPath, dir, module)
}
