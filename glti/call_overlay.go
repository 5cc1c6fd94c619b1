//go:build loupe_glti

package glti

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"
)

func (o *overlay) funcType(entry uintptr) (*FuncType, error) { return o.types.at(entry) }

// call calls a function of which only the address is known. Go's calling convention depends on the types of the parameters, so reflect
// makes the call.
func (o *overlay) call(fn, arg uintptr, argsize uint32) (err error) {
	const method = "ReflectCall"
	if c := capability(method); !c.Available {
		return c.err()
	}
	if f := runtime.FuncForPC(fn); f == nil || f.Entry() != fn {
		return fmt.Errorf("glti: %s: no function begins at %#x", method, fn)
	}
	name := nameAt(fn)
	if isClosure(name) {
		return fmt.Errorf("glti: %s: %s is a closure: its address does not say which variables it uses", method, name)
	}
	if isInternal(name) {
		return fmt.Errorf("glti: %s: %s is internal to the runtime", method, name)
	}
	t, err := o.types.at(fn)
	if err != nil {
		return fmt.Errorf("glti: %s: %w", method, err)
	}
	f := frameOf(t.Type)
	switch {
	case uintptr(argsize) != f.size:
		return fmt.Errorf("glti: %s: a frame of %s has %d bytes, not %d", method, name, f.size, argsize)
	case f.size > 0 && (arg == 0 || arg%unsafe.Sizeof(arg) != 0):
		return fmt.Errorf("glti: %s: %#x is not the address of a frame", method, arg)
	}
	in, err := f.arguments(arg)
	if err != nil {
		return fmt.Errorf("glti: %s: %w", method, err)
	}
	out, err := recovered(name, valueOf(fn, t.Type), in)
	if err != nil {
		return err
	}
	if err := f.setResults(arg, out); err != nil {
		return fmt.Errorf("glti: %s: %w", method, err)
	}
	return nil
}

// recovered calls a function, and returns a panic as an error.
func recovered(name string, fn reflect.Value, in []reflect.Value) (out []reflect.Value, err error) {
	returned := false
	defer func() {
		if !returned {
			err = &CallError{Func: name, Value: recover(), Stack: debug.Stack()}
		}
	}()
	out = fn.Call(in)
	returned = true
	return out, nil
}

// valueOf returns the function at an address as a value. A function value points to a word with the address.
func valueOf(fn uintptr, t reflect.Type) reflect.Value {
	word := &fn
	return reflect.NewAt(t, unsafe.Pointer(&word)).Elem()
}

// isClosure reports whether the compiler has made a function of an expression, and so whether the function can expect that variables are
// passed to it in another way than parameters.
func isClosure(name string) bool {
	if strings.HasSuffix(name, "-fm") || strings.Contains(name, "-range") {
		return true
	}
	_, name, _ = strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ".") // without the package
	for i, part := range strings.Split(name, ".") {
		number := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(part, "func"), "gowrap"), "deferwrap")
		if i > 0 && number != part && strings.Trim(number, "0123456789") == "" {
			return true
		}
	}
	return false
}

// isInternal reports whether a function is one of the runtime that is not exported. It may require a stack or a state that the caller has not.
func isInternal(name string) bool {
	for _, prefix := range []string{"runtime/internal/", "internal/runtime/"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	rest, ok := strings.CutPrefix(name, "runtime.")
	if _, method, found := strings.Cut(rest, ")."); found {
		rest = method
	}
	return ok && (rest == "" || rest[0] < 'A' || rest[0] > 'Z')
}

// frame is the memory that contains the arguments and results of a call.
type frame struct {
	types   []reflect.Type
	offsets []uintptr
	results int // index of the first result
	size    uintptr
}

func frameOf(t reflect.Type) *frame {
	f := &frame{results: t.NumIn()}
	for i := 0; i < t.NumIn(); i++ {
		f.add(t.In(i))
	}
	f.align(unsafe.Sizeof(f.size))
	for i := 0; i < t.NumOut(); i++ {
		f.add(t.Out(i))
	}
	f.align(unsafe.Sizeof(f.size))
	return f
}

func (f *frame) align(to uintptr) { f.size = (f.size + to - 1) / to * to }

func (f *frame) add(t reflect.Type) {
	f.align(uintptr(t.Align()))
	f.types = append(f.types, t)
	f.offsets = append(f.offsets, f.size)
	f.size += t.Size()
}

// at returns the variable of a parameter or result in the frame at an address.
func (f *frame) at(arg uintptr, i int) reflect.Value {
	p := arg + f.offsets[i]
	return reflect.NewAt(f.types[i], *(*unsafe.Pointer)(unsafe.Pointer(&p))).Elem()
}

// arguments copies the arguments.
func (f *frame) arguments(arg uintptr) (in []reflect.Value, err error) {
	err = mapped(arg, func() {
		for i := 0; i < f.results; i++ {
			v := reflect.New(f.types[i]).Elem()
			v.Set(f.at(arg, i))
			in = append(in, v)
		}
	})
	return in, err
}

// setResults stores the results.
func (f *frame) setResults(arg uintptr, out []reflect.Value) error {
	return mapped(arg, func() {
		for i, v := range out {
			f.at(arg, f.results+i).Set(v)
		}
	})
}

// mapped calls a function that uses the frame at an address. It returns an error if the memory is not mapped.
func mapped(arg uintptr, use func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the frame at %#x is not in memory that can be read and written", arg)
		}
	}()
	use()
	return nil
}
