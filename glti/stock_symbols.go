package glti

import (
	"debug/elf"
	"debug/gosym"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// executable is the file that runs, even if it was replaced.
const executable = "/proc/self/exe"

// symbolTable has the addresses of the program's functions, and of its global variables if the program's file has a symbol table.
type symbolTable struct {
	once      sync.Once
	addresses map[string]uintptr
}

func (s *stock) symbol(name string) uintptr { return s.symbols.lookup(name) }

func (t *symbolTable) lookup(name string) uintptr {
	t.once.Do(t.load)
	return t.addresses[name]
}

// load reads the program's file, or searches the program's code if that is impossible.
func (t *symbolTable) load() {
	known := anchor()
	for _, read := range []func(*elf.File) map[string]uintptr{symbolsOf, lineTableOf} {
		addresses := readExecutable(read)
		if addresses[known.Name()] == 0 {
			continue
		}
		// The loader may have moved the program, by the same distance for code and data.
		moved := known.Entry() - addresses[known.Name()]
		for name := range addresses {
			addresses[name] += moved
		}
		t.addresses = addresses
		return
	}
	t.addresses = walkFunctions(known.Entry())
}

// anchor returns a function whose address in memory and name are known.
func anchor() *runtime.Func { return runtime.FuncForPC(reflect.ValueOf(deliver).Pointer()) }

// readExecutable returns the addresses of symbols in the program's file, nil if it cannot be read.
func readExecutable(read func(*elf.File) map[string]uintptr) map[string]uintptr {
	if runtime.GOOS != "linux" {
		return nil
	}
	file, err := elf.Open(executable)
	if err != nil {
		return nil
	}
	defer file.Close()
	return read(file)
}

// symbolsOf returns the functions and variables of the symbol table. A stripped program has none.
func symbolsOf(file *elf.File) map[string]uintptr {
	symbols, _ := file.Symbols()
	addresses := make(map[string]uintptr, len(symbols))
	for _, s := range symbols {
		if kind := elf.ST_TYPE(s.Info); kind == elf.STT_FUNC || kind == elf.STT_OBJECT {
			addresses[s.Name] = uintptr(s.Value)
		}
	}
	return addresses
}

// lineTableOf returns the functions of the line table, which every program has. Their addresses may all be wrong by the same
// distance, since the table does not contain its base.
func lineTableOf(file *elf.File) map[string]uintptr {
	text := file.Section(".text")
	pclntab := file.Section(".gopclntab")
	if pclntab == nil {
		pclntab = file.Section(".data.rel.ro.gopclntab") // of position-independent executables
	}
	if text == nil || pclntab == nil {
		return nil
	}
	data, err := pclntab.Data()
	if err != nil {
		return nil
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, text.Addr))
	if err != nil {
		return nil
	}
	addresses := make(map[string]uintptr, len(table.Funcs))
	for _, f := range table.Funcs {
		addresses[f.Name] = uintptr(f.Entry)
	}
	return addresses
}

// walkFunctions finds functions in memory, in both directions from an address.
func walkFunctions(from uintptr) map[string]uintptr {
	const step = 16 // functions are aligned
	addresses := map[string]uintptr{}
	var last uintptr
	visit := func(pc uintptr) bool {
		f := runtime.FuncForPC(pc)
		if f == nil {
			return false
		}
		if entry := f.Entry(); entry != last {
			last = entry
			addresses[nameAt(entry)] = entry
		}
		return true
	}
	for pc := from; visit(pc); pc += step {
	}
	for pc := from; visit(pc); pc -= step {
	}
	return addresses
}

// nameAt returns the name of the function that begins at an address. Its first instructions may be those of an inlined function.
func nameAt(entry uintptr) string {
	for pc := entry; pc < entry+64; pc++ {
		frame, _ := runtime.CallersFrames([]uintptr{pc + 1}).Next()
		if frame.Entry != entry {
			break
		}
		if frame.Func != nil {
			return frame.Func.Name()
		}
	}
	return runtime.FuncForPC(entry).Name()
}

// loadUint64 reads a variable of the runtime.
func loadUint64(addr uintptr) uint64 {
	return atomic.LoadUint64(*(**uint64)(unsafe.Pointer(&addr)))
}
