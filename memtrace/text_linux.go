//go:build linux && (amd64 || arm64)

package memtrace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"
)

// text is the part of the program's code that holds the runtime.
type text struct {
	maps      []mapping
	functions map[string]function
	lo, hi    uintptr // from the entry of the runtime's first function to that of the last
}

// function is the code of one function, in memory.
type function struct {
	name       string
	entry, end uintptr
}

func (f function) code() []byte {
	return unsafe.Slice((*byte)(pointerTo(f.entry)), f.end-f.entry)
}

// mapping is a line of /proc/self/maps.
type mapping struct {
	start, end uintptr
	offset     int64
	executable bool
	path       string
}

// allocators are the functions that allocate: mallocgc, and since Go 1.26 functions for single size classes.
var allocators = regexp.MustCompile(`^runtime\.mallocgc(|TinySC2|TinySize\d+|SmallNoScanSC\d+|SmallScanNoHeaderSC\d+)$`)

// Functions of interest beside these.
const (
	mallocgc = "runtime.mallocgc"
	slowTiny = "runtime.mallocgcTinySlowPath"
	throw    = "runtime.throw"
	withASan = "runtime.asanread"
)

const (
	align        = 16   // of functions
	otherRun     = 64   // functions of other packages in a row, after which the runtime's code has ended
	wholeRuntime = 1000 // functions; the runtime has more
)

// findText finds the functions of the runtime. The linker puts the functions of a package side by side.
func findText() (*text, error) {
	maps, err := readMaps()
	if err != nil {
		return nil, err
	}
	t := &text{maps: maps, functions: map[string]function{}, lo: ^uintptr(0)}
	from := reflect.ValueOf(runtime.GC).Pointer()
	m, ok := t.mapping(from)
	if !ok || !m.executable {
		return nil, errors.New("the code of the runtime is not mapped from a file")
	}
	found := t.collect(from, m.end, align) + t.collect(from-align, m.start, -align)
	if found < wholeRuntime {
		return nil, errors.New("the functions of the runtime are not side by side in the program")
	}
	if _, ok := t.functions[mallocgc]; !ok {
		return nil, errors.New("the program has no function " + mallocgc)
	}
	if _, ok := t.functions[withASan]; ok {
		return nil, errors.New("the program was built with -asan, which changes the sizes of objects")
	}
	return t, nil
}

// collect collects the runtime's functions from an address on, up or down, and returns how many it found.
func (t *text) collect(from, to uintptr, step int) int {
	found, others := 0, 0
	var last uintptr
	for pc := from; pc != to && others < otherRun && (pc < to) == (step > 0); pc += uintptr(step) {
		f := runtime.FuncForPC(pc)
		if f == nil || f.Entry() == last {
			continue
		}
		last = f.Entry()
		name := runtime.FuncForPC(last).Name() // that of pc may be an inlined function
		if !strings.HasPrefix(name, "runtime.") {
			others++
			continue
		}
		others = 0
		found++
		t.lo, t.hi = min(t.lo, last), max(t.hi, last)
		if allocators.MatchString(name) || name == slowTiny || name == throw || name == withASan {
			t.functions[name] = function{name, last, t.endOf(last)}
		}
	}
	return found
}

// endOf returns the address behind a function and its padding.
func (t *text) endOf(entry uintptr) uintptr {
	m, _ := t.mapping(entry)
	pc := entry + align
	for pc < m.end {
		if f := runtime.FuncForPC(pc); f == nil || f.Entry() != entry {
			break
		}
		pc += align
	}
	return pc
}

// unchanged checks that the code of a function is that of the program's file: no other tool has patched it.
func (t *text) unchanged(f function, exe *os.File) error {
	m, ok := t.mapping(f.entry)
	if !ok || f.end > m.end {
		return fmt.Errorf("%s is not mapped from a file", f.name)
	}
	want := make([]byte, f.end-f.entry)
	if _, err := exe.ReadAt(want, m.offset+int64(f.entry-m.start)); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	if !bytes.Equal(f.code(), want) {
		return fmt.Errorf("another tool has changed the code of %s", f.name)
	}
	return nil
}

func (t *text) mapping(pc uintptr) (mapping, bool) {
	for _, m := range t.maps {
		if pc >= m.start && pc < m.end {
			return m, m.path != ""
		}
	}
	return mapping{}, false
}

// readMaps returns the memory mappings of the process, in order of addresses.
func readMaps() ([]mapping, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []mapping
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("/proc/self/maps: line %q", lines.Text())
		}
		start, end, _ := strings.Cut(fields[0], "-")
		var m mapping
		for _, n := range []struct {
			text string
			to   func(uint64)
		}{
			{start, func(v uint64) { m.start = uintptr(v) }},
			{end, func(v uint64) { m.end = uintptr(v) }},
			{fields[2], func(v uint64) { m.offset = int64(v) }},
		} {
			v, err := strconv.ParseUint(n.text, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/self/maps: line %q", lines.Text())
			}
			n.to(v)
		}
		m.executable = strings.Contains(fields[1], "x")
		if len(fields) > 5 {
			m.path = strings.Join(fields[5:], " ")
		}
		list = append(list, m)
	}
	return list, lines.Err()
}
