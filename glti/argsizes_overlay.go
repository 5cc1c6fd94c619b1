//go:build loupe_glti

package glti

import "reflect"

// The description of a function's parameters is a sequence of bytes: the offset and the size of a word, or one of these
// (internal/abi/symtab.go of the toolchain).
const (
	argsEnd       = 0xff
	argsOpen      = 0xfe
	argsClose     = 0xfd
	argsMore      = 0xfc
	argsFarOffset = 0xfb

	maxSizes = 10 // words in a description
	maxDepth = 5  // of aggregates in others
	maxBytes = (maxDepth*3+2)*maxSizes + 1
)

// parameterSizes returns the description of the parameters of the function at an address, without offsets.
func parameterSizes(entry uintptr) (sizes string, ok bool) {
	info, ok := rt_argInfo(entry)
	if !ok || info == nil {
		return "", ok
	}
	var text []byte
	p := (*[maxBytes]byte)(info)
	for i := 0; p[i] != argsEnd; i++ {
		if p[i] < argsFarOffset {
			i++
		}
		text = append(text, p[i])
	}
	return string(text), true
}

// sizesOf returns what parameterSizes is to return for parameters. all is false if the description does not contain all of them.
func sizesOf(in []reflect.Type) (sizes string, all bool) {
	var d sizeList
	for _, t := range in {
		if !d.add(t, 0) {
			return string(d.text), false
		}
	}
	return string(d.text), true
}

type sizeList struct {
	text []byte
	n    int
}

// add adds a parameter, and reports whether there is room for more.
func (d *sizeList) add(t reflect.Type, depth int) bool {
	if d.n >= maxSizes {
		d.text = append(d.text, argsMore)
		return false
	}
	parts, aggregate := partsOf(t)
	if !aggregate {
		d.text = append(d.text, byte(t.Size()))
		d.n++
		return true
	}
	d.text = append(d.text, argsOpen)
	if depth+1 >= maxDepth {
		d.text = append(d.text, argsMore, argsClose)
		d.n++
		return true
	}
	if parts.n == 0 {
		d.n++
	}
	all := true
	for i := 0; i < parts.n && all; i++ {
		all = d.add(parts.at(i), depth+1)
	}
	d.text = append(d.text, argsClose)
	return all
}

// typeParts are the types that a type consists of.
type typeParts struct {
	n  int
	at func(i int) reflect.Type
}

func partsOf(t reflect.Type) (p typeParts, aggregate bool) {
	all := func(n int, part reflect.Type) typeParts {
		return typeParts{n, func(int) reflect.Type { return part }}
	}
	word := reflect.TypeOf(uintptr(0))
	switch t.Kind() {
	case reflect.Interface, reflect.String:
		return all(2, word), true
	case reflect.Slice:
		return all(3, word), true
	case reflect.Complex64:
		return all(2, reflect.TypeOf(float32(0))), true
	case reflect.Complex128:
		return all(2, reflect.TypeOf(float64(0))), true
	case reflect.Array:
		return all(t.Len(), t.Elem()), true
	case reflect.Struct:
		return typeParts{t.NumField(), func(i int) reflect.Type { return t.Field(i).Type }}, true
	}
	return typeParts{}, false
}
