package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// pointer returns a pointer. It replaces all types of one word.
func pointer() ast.Expr { return &ast.StarExpr{X: emptyStruct()} }

func emptyStruct() ast.Expr { return &ast.StructType{Fields: &ast.FieldList{}} }

func emptyInterface() ast.Expr { return &ast.InterfaceType{Methods: &ast.FieldList{}} }

// eraseType returns the declaration of a type of the same layout that refers only to types which it contains.
func eraseType(spec *ast.TypeSpec) *ast.TypeSpec {
	out := &ast.TypeSpec{Name: spec.Name, Assign: spec.Assign, Type: erase(spec.Type)}
	if spec.TypeParams != nil {
		out.TypeParams = &ast.FieldList{}
		for _, p := range spec.TypeParams.List {
			out.TypeParams.List = append(out.TypeParams.List, &ast.Field{Names: p.Names, Type: emptyInterface()})
		}
	}
	return out
}

// erase returns a type expression of the same layout that refers only to types which it contains.
func erase(x ast.Expr) ast.Expr {
	switch x := x.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.ChanType, *ast.FuncType:
		return pointer()
	case *ast.InterfaceType:
		return emptyInterface()
	case *ast.ParenExpr:
		return erase(x.X)
	case *ast.ArrayType:
		if x.Len == nil {
			return &ast.ArrayType{Elt: emptyStruct()}
		}
		return &ast.ArrayType{Len: x.Len, Elt: erase(x.Elt)}
	case *ast.IndexExpr:
		return &ast.IndexExpr{X: x.X, Index: erase(x.Index)}
	case *ast.IndexListExpr:
		out := &ast.IndexListExpr{X: x.X}
		for _, index := range x.Indices {
			out.Indices = append(out.Indices, erase(index))
		}
		return out
	case *ast.StructType:
		return eraseStruct(x)
	}
	return x // a name
}

// eraseStruct erases the types of fields. An embedded field becomes one with a name, because an erased type cannot be
// embedded.
func eraseStruct(s *ast.StructType) ast.Expr {
	out := &ast.FieldList{}
	for _, f := range s.Fields.List {
		names := f.Names
		if names == nil {
			names = []*ast.Ident{embeddedName(f.Type)}
		}
		out.List = append(out.List, &ast.Field{Names: names, Type: erase(f.Type)})
	}
	return &ast.StructType{Fields: out}
}

// embeddedName returns the name of an embedded field.
func embeddedName(x ast.Expr) *ast.Ident {
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.ParenExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.SelectorExpr:
			return t.Sel
		case *ast.Ident:
			return t
		default:
			return ast.NewIdent("_") // the type checker would have rejected it
		}
	}
}

// untilLast returns the declaration of a struct without the fields after the last wanted one. ok is false if it declares
// another type, or an alias: DWARF has the name of the aliased type.
func untilLast(d ast.Decl, wanted []string) (short ast.Decl, ok bool) {
	spec, ok := d.(*ast.GenDecl).Specs[0].(*ast.TypeSpec)
	if !ok || spec.Assign.IsValid() {
		return nil, false
	}
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil, false
	}
	n := 0
	for i, f := range s.Fields.List {
		for _, path := range wanted {
			first, _, _ := strings.Cut(path, ".")
			if slices.ContainsFunc(f.Names, func(name *ast.Ident) bool { return name.Name == first }) {
				n = i + 1
			}
		}
	}
	shortSpec := &ast.TypeSpec{Name: spec.Name, TypeParams: spec.TypeParams,
		Type: &ast.StructType{Fields: &ast.FieldList{List: s.Fields.List[:n]}}}
	return &ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{shortSpec}}, true
}
