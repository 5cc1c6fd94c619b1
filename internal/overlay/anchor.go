package overlay

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/english"
)

// A source is a file that edits are applied to.
type source struct {
	name string // below GOROOT/src
	text []byte
	fset *token.FileSet
	file *ast.File
	// inserted are the texts to insert, by offset.
	inserted []insertion
	appended strings.Builder
}

type insertion struct {
	offset int
	text   string
}

// parseSource parses a file. A file of another language than Go has only lines of text.
func parseSource(name string, text []byte) (*source, error) {
	s := &source{name: name, text: text, fset: token.NewFileSet()}
	if !isGo(name) {
		return s, nil
	}
	var err error
	s.file, err = parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return s, nil
}

func isGo(name string) bool { return strings.HasSuffix(name, ".go") }

// result returns the patched text.
func (s *source) result() []byte {
	slices.SortStableFunc(s.inserted, func(a, b insertion) int { return a.offset - b.offset })
	var out []byte
	at := 0
	for _, i := range s.inserted {
		out = append(append(out, s.text[at:i.offset]...), i.text...)
		at = i.offset
	}
	out = append(out, s.text[at:]...)
	return append(out, s.appended.String()...)
}

// apply finds the anchor of an edit and inserts its text.
func (s *source) apply(e edit) error {
	err := s.insert(e)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, e.decl, err)
	}
	return nil
}

func (s *source) insert(e edit) error {
	switch e.place.kind {
	case placeField:
		return s.insertField(e)
	case placeLine:
		return s.insertLine(e)
	}
	if s.file == nil {
		return fmt.Errorf("the file is not a Go file")
	}
	fn, err := s.function(e.decl)
	if err != nil {
		return err
	}
	switch e.place.kind {
	case placeFirst:
		s.at(fn.Body.Lbrace+1, " "+e.text+";")
	case placeLast:
		s.at(fn.Body.Rbrace, "; "+e.text+" ")
	case placeReturns:
		return s.insertReturns(fn, e)
	default:
		return s.insertCall(fn, e)
	}
	return nil
}

func (s *source) at(pos token.Pos, text string) {
	s.inserted = append(s.inserted, insertion{s.fset.Position(pos).Offset, text})
}

// function returns the declaration of a function with a body.
func (s *source) function(decl string) (*ast.FuncDecl, error) {
	var found []*ast.FuncDecl
	for _, d := range s.file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && "func "+functionName(fn) == decl {
			found = append(found, fn)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s, expected 1", english.Count(len(found), "declaration"))
	}
	return found[0], nil
}

// functionName returns "f" for a function and "(*T).f" for a method.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return "(" + types.ExprString(fn.Recv.List[0].Type) + ")." + fn.Name.Name
}

// insertLine inserts at the end of a line of text.
func (s *source) insertLine(e edit) error {
	var ends []int
	offset := 0
	for line := range strings.SplitAfterSeq(string(s.text), "\n") {
		offset += len(line)
		if line == e.place.line+"\n" {
			ends = append(ends, offset-1)
		}
	}
	if len(ends) != 1 {
		return fmt.Errorf("%s %q, expected 1", english.Count(len(ends), "line"), e.place.line)
	}
	s.inserted = append(s.inserted, insertion{ends[0], " " + e.text})
	return nil
}

// insertField inserts a field at the end of a struct.
func (s *source) insertField(e edit) error {
	if s.file == nil {
		return fmt.Errorf("the file is not a Go file")
	}
	var found []*ast.StructType
	for _, d := range s.file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok || "type "+t.Name.Name != e.decl {
				continue
			}
			if st, ok := t.Type.(*ast.StructType); ok {
				found = append(found, st)
			}
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%s, expected 1", english.Count(len(found), "struct type"))
	}
	closing := found[0].Fields.Closing
	if list := found[0].Fields.List; len(list) == 0 || s.line(list[len(list)-1].End()) == s.line(closing) {
		return fmt.Errorf("the closing brace is not on a line of its own")
	}
	s.at(closing, e.text+"; ")
	return nil
}

func (s *source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// insertReturns inserts a statement before each return of a function. The results must be values, because the statement must not run before
// calls that compute them.
func (s *source) insertReturns(fn *ast.FuncDecl, e edit) error {
	var returns []*ast.ReturnStmt
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			returns = append(returns, n)
		}
		return true
	})
	if len(returns) != e.place.count {
		return fmt.Errorf("%s, expected %d", english.Count(len(returns), "return statement"), e.place.count)
	}
	for _, r := range returns {
		for _, result := range r.Results {
			switch result.(type) {
			case *ast.Ident, *ast.BasicLit:
			default:
				return fmt.Errorf("return of an expression in line %d", s.line(r.Pos()))
			}
		}
		s.at(r.Pos(), e.text+"; ")
	}
	return nil
}

// insertCall inserts a statement before or after the statement, or the block, with a call.
func (s *source) insertCall(fn *ast.FuncDecl, e edit) error {
	var found []ast.Stmt
	var path []ast.Node
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return false
		}
		path = append(path, n)
		if call, ok := n.(*ast.CallExpr); ok && (types.ExprString(call.Fun) == e.place.call || types.ExprString(call) == e.place.call) {
			found = append(found, enclosing(path, e.place.block))
		}
		return true
	})
	if len(found) != e.place.count {
		return fmt.Errorf("%s of %s, expected %d", english.Count(len(found), "call"), e.place.call, e.place.count)
	}
	for _, stmt := range found {
		if stmt == nil {
			return fmt.Errorf("the call of %s is not in a list of statements", e.place.call)
		}
		if !e.place.after {
			s.at(stmt.Pos(), e.text+"; ")
			continue
		}
		if _, ok := stmt.(*ast.ReturnStmt); ok {
			return fmt.Errorf("the call of %s is in a return statement", e.place.call)
		}
		s.at(stmt.End(), "; "+e.text)
	}
	return nil
}

// enclosing returns the innermost statement of a list of statements at the end of a path, or the innermost such statement that is a
// block. It returns nil if the path has no such statement.
func enclosing(path []ast.Node, block bool) ast.Stmt {
	for i := len(path) - 1; i > 0; i-- {
		stmt, ok := path[i].(ast.Stmt)
		if !ok || !lists(path[i-1], stmt) || block && !isBlock(stmt) {
			continue
		}
		if _, labeled := stmt.(*ast.LabeledStmt); labeled {
			return nil
		}
		return stmt
	}
	return nil
}

// lists reports whether a child of a node is in its list of statements.
func lists(n ast.Node, child ast.Stmt) bool {
	switch n := n.(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	case *ast.CommClause:
		return child != n.Comm
	}
	return false
}

func isBlock(n ast.Stmt) bool {
	switch n.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.SelectStmt:
		return true
	}
	return false
}
