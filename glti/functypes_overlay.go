//go:build loupe_glti

package glti

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// funcTypes reads the types of functions from the debug information of the executable. The compiler leaves out a parameter there if
// it sees no use for it, so the parameters are compared with those that tracebacks print.
type funcTypes struct {
	mu   sync.Mutex
	data *dwarf.Data // nil while it is not in memory
	// moved is how far the executable was moved when it was loaded; types is where the section with the types is in memory.
	moved, types uintptr
	drop         *time.Timer
}

// keepDebugInfo is how long debug information stays in memory after its last use.
const keepDebugInfo = 30 * time.Second

// Attributes of Go's types.
const (
	attrKind    = dwarf.Attr(0x2900)
	attrKey     = dwarf.Attr(0x2901)
	attrElem    = dwarf.Attr(0x2902)
	attrRuntime = dwarf.Attr(0x2904) // the offset of the type in its section, 0 if the executable does not contain the type
)

// languageGo is the value of AttrLanguage.
const languageGo = 22

// noDebugInfo says why there are no types of functions, "" if there are.
var noDebugInfo = sync.OnceValue(func() string {
	if runtime.GOOS != "linux" {
		return "debug information can be read only on Linux"
	}
	file, err := elf.Open(executable)
	if err != nil {
		return "the executable cannot be read"
	}
	defer file.Close()
	for _, name := range []string{".debug_info", ".zdebug_info"} {
		if file.Section(name) != nil && file.Section(".symtab") != nil {
			return ""
		}
	}
	return "the executable was linked without debug information (-ldflags=-s or -w)"
})

// at returns the type of the function that begins at an address.
func (f *funcTypes) at(entry uintptr) (*FuncType, error) {
	name := nameAt(entry)
	if strings.Contains(name, "[") {
		return nil, fmt.Errorf("%s is generic: its code is that of several types", name)
	}
	want, ok := parameterSizes(entry)
	if !ok {
		return nil, fmt.Errorf("%s is written in assembly", name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return nil, err
	}
	in, out, err := f.parameters(entry - f.moved)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if got, all := sizesOf(in); !all {
		return nil, fmt.Errorf("%s has more than %d words of parameters", name, maxSizes)
	} else if got != want {
		return nil, fmt.Errorf("%s: the debug information lacks a parameter", name)
	}
	return &FuncType{Type: reflect.FuncOf(in, out, false), ABI: 1}, nil
}

// load reads the debug information, unless it is in memory.
func (f *funcTypes) load() error {
	if f.data != nil {
		f.drop.Reset(keepDebugInfo)
		return nil
	}
	file, err := elf.Open(executable)
	if err != nil {
		return fmt.Errorf("read debug information: %w", err)
	}
	defer file.Close()
	known := anchor()
	inFile := symbolsOf(file)[known.Name()]
	if inFile == 0 {
		return errors.New("the executable has no symbol table")
	}
	data, err := file.DWARF()
	if err != nil {
		return fmt.Errorf("read debug information: %w", err)
	}
	f.moved = known.Entry() - inFile
	begin, _ := rt_types()
	for _, s := range file.Sections {
		if at := uintptr(s.Addr) + f.moved; s.Addr != 0 && at <= begin && begin < at+uintptr(s.Size) {
			f.types = at
		}
	}
	f.data = data
	f.drop = time.AfterFunc(keepDebugInfo, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.data = nil
	})
	return nil
}

// parameters returns the types of the parameters and results of a function. A method's receiver is its first parameter.
func (f *funcTypes) parameters(entry uintptr) (in, out []reflect.Type, err error) {
	r := f.data.Reader()
	unit, err := r.SeekPC(uint64(entry))
	if err != nil {
		return nil, nil, fmt.Errorf("the debug information does not contain the function")
	}
	if language, _ := unit.Val(dwarf.AttrLanguage).(int64); language != languageGo {
		return nil, nil, errors.New("the function is not written in Go")
	}
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit {
			return nil, nil, errors.New("the debug information does not contain the function")
		}
		low, ok := e.Val(dwarf.AttrLowpc).(uint64)
		if e.Tag != dwarf.TagSubprogram || !ok || low != uint64(entry) {
			if e.Tag == dwarf.TagSubprogram {
				r.SkipChildren()
			}
			continue
		}
		if wrapper, _ := e.Val(dwarf.AttrTrampoline).(bool); wrapper {
			return nil, nil, errors.New("the compiler has generated the function")
		}
		if !e.Children {
			return nil, nil, nil
		}
		return f.children(r)
	}
}

// children returns the types of the parameters among the children of a function. The compiler can list one twice, as a variable that is in
// registers and as one that is not.
func (f *funcTypes) children(r *dwarf.Reader) (in, out []reflect.Type, err error) {
	seen := map[string]bool{}
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return in, out, err
		}
		if e.Children {
			r.SkipChildren()
		}
		if e.Tag == dwarf.TagFormalParameter {
			// Of a function that is also inlined, the declaration has the types.
			if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
				if e, err = f.entry(origin); err != nil {
					return nil, nil, err
				}
			}
			name, _ := e.Val(dwarf.AttrName).(string)
			if seen[name] {
				continue
			}
			seen[name] = true
			t, err := f.typeAt(e.Val(dwarf.AttrType))
			if err != nil {
				return nil, nil, err
			}
			if result, _ := e.Val(dwarf.AttrVarParam).(bool); result {
				out = append(out, t)
			} else {
				in = append(in, t)
			}
		}
	}
}

// entry returns the entry at an offset.
func (f *funcTypes) entry(offset any) (*dwarf.Entry, error) {
	at, ok := offset.(dwarf.Offset)
	r := f.data.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err != nil || e == nil || !ok {
		return nil, fmt.Errorf("the debug information has no entry at %v", offset)
	}
	return e, nil
}

// typeAt returns the type of the runtime for the type at an offset.
func (f *funcTypes) typeAt(offset any) (reflect.Type, error) {
	e, err := f.entry(offset)
	if err != nil {
		return nil, err
	}
	name, _ := e.Val(dwarf.AttrName).(string)
	if e.Tag == dwarf.TagTypedef && e.Val(attrKind) == nil { // of a type with a name; maps are also typedefs
		if e, err = f.entry(e.Val(dwarf.AttrType)); err != nil {
			return nil, err
		}
	}
	kind, _ := e.Val(attrKind).(int64)
	if t := f.runtimeType(e, reflect.Kind(kind)); t != nil {
		return t, nil
	}
	return f.composite(e, name, reflect.Kind(kind))
}

// runtimeType returns the type of the runtime that an entry refers to, nil if the executable does not contain it.
func (f *funcTypes) runtimeType(e *dwarf.Entry, kind reflect.Kind) reflect.Type {
	offset, _ := e.Val(attrRuntime).(uint64)
	begin, end := rt_types()
	at := f.types + uintptr(offset)
	if offset == 0 || at < begin || at >= end {
		return nil
	}
	words := [2]uintptr{at} // an interface: the type, and a pointer to the value
	t := reflect.TypeOf(*(*any)(unsafe.Pointer(&words)))
	size, sized := e.Val(dwarf.AttrByteSize).(int64)
	if t.Kind() != kind || sized && uintptr(size) != t.Size() {
		return nil
	}
	return t
}

// composite makes a type without a name of its elements.
func (f *funcTypes) composite(e *dwarf.Entry, name string, kind reflect.Kind) (reflect.Type, error) {
	absent := fmt.Errorf("type %s is not in the executable", name)
	of := func(attr dwarf.Attr) (reflect.Type, error) {
		t, err := f.typeAt(e.Val(attr))
		if err != nil {
			err = fmt.Errorf("%w: %w", absent, err)
		}
		return t, err
	}
	switch {
	case name == "unsafe.Pointer":
		return reflect.TypeOf(unsafe.Pointer(nil)), nil
	case e.Tag == dwarf.TagPointerType && strings.HasPrefix(name, "*"): // the linker makes some, without their kind
		elem, err := of(dwarf.AttrType)
		if err != nil {
			return nil, err
		}
		return reflect.PointerTo(elem), nil
	case kind == reflect.Slice && strings.HasPrefix(name, "[]"):
		elem, err := of(attrElem)
		if err != nil {
			return nil, err
		}
		return reflect.SliceOf(elem), nil
	case kind == reflect.Map && strings.HasPrefix(name, "map["):
		key, err := of(attrKey)
		if err != nil {
			return nil, err
		}
		elem, err := of(attrElem)
		if err != nil {
			return nil, err
		}
		return reflect.MapOf(key, elem), nil
	}
	return nil, absent
}
