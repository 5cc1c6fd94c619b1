package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// A closure is the declarations that the layout of one struct depends on, by package.
type closure struct {
	world    *world
	packages map[string]*part // by import path
	queue    []reference
}

// A part is the declarations of one package in a closure.
type part struct {
	pkg     *pkg
	files   map[*file]*selection
	checked *types.Package
}

// A selection is what a closure has of a file.
type selection struct {
	imports []*ast.ImportSpec
	decls   []ast.Decl
}

// A reference is the use of a name that a package declares.
type reference struct {
	pkg  *pkg
	name string
}

// check type-checks a struct with what its layout depends on.
func (w *world) check(p *pkg, name string) (types.Object, error) {
	c := &closure{world: w, packages: map[string]*part{}, queue: []reference{{p, name}}}
	for len(c.queue) > 0 {
		r := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.add(r); err != nil {
			return nil, err
		}
	}
	checked, err := c.Import(p.path)
	if err != nil {
		return nil, err
	}
	return checked.Scope().Lookup(name), nil
}

// add adds a declaration, and queues the names in it.
func (c *closure) add(r reference) error {
	d, ok := r.pkg.decls[r.name]
	if !ok || r.pkg == unsafePackage {
		return nil // a predeclared name, a field, or an error that the type checker reports
	}
	pt, ok := c.packages[r.pkg.path]
	if !ok {
		pt = &part{pkg: r.pkg, files: map[*file]*selection{}}
		c.packages[r.pkg.path] = pt
	}
	if pt.pkg != r.pkg {
		return fmt.Errorf("two packages have the path %s", r.pkg.path)
	}
	s, ok := pt.files[d.file]
	if !ok {
		s = &selection{}
		pt.files[d.file] = s
	}
	if slices.Contains(s.decls, d.node) {
		return nil
	}
	s.decls = append(s.decls, d.node)
	return c.references(r.pkg, d, s)
}

// references queues the names that a declaration uses.
func (c *closure) references(p *pkg, d declaration, s *selection) error {
	var failed error
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			ast.Inspect(n.Type, visit) // not its name
			return false
		case *ast.Ident:
			c.queue = append(c.queue, reference{p, n.Name})
		case *ast.SelectorExpr:
			name, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			if err := c.imported(p, d.file, s, name.Name, n.Sel.Name); err != nil && failed == nil {
				failed = err
			}
			return false
		}
		return true
	}
	ast.Inspect(d.node, visit)
	return failed
}

// imported queues a name in an imported package.
func (c *closure) imported(p *pkg, f *file, s *selection, pkgName, name string) error {
	other, spec, err := c.world.imported(p, f, pkgName)
	if err != nil || other == nil {
		return err
	}
	c.queue = append(c.queue, reference{other, name})
	if !slices.Contains(s.imports, spec) {
		s.imports = append(s.imports, spec)
	}
	return nil
}

// Import implements types.Importer. It type-checks the part of a package.
func (c *closure) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	pt, ok := c.packages[path]
	if !ok {
		return nil, fmt.Errorf("package %s has none of the names that are used", path)
	}
	if pt.checked != nil {
		return pt.checked, nil
	}
	var files []*ast.File
	for f, s := range pt.files {
		files = append(files, s.file(f))
	}
	conf := types.Config{Importer: c, Sizes: c.world.sizes, IgnoreFuncBodies: true}
	var err error
	pt.checked, err = conf.Check(path, c.world.parsed.fset, files, nil)
	return pt.checked, err
}

// file returns a file with what was selected of another one.
func (s *selection) file(f *file) *ast.File {
	out := &ast.File{Package: f.position, Name: ast.NewIdent(f.name)}
	for _, spec := range s.imports {
		out.Decls = append(out.Decls, &ast.GenDecl{TokPos: spec.Pos(), Tok: token.IMPORT, Specs: []ast.Spec{spec}})
	}
	out.Decls = append(out.Decls, s.decls...)
	return out
}
