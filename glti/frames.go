package glti

import (
	"runtime"
	"strings"
)

// frameTable finds the addresses of inlined frames. A profile has only the address of the innermost function that was inlined at a
// place, and the names and lines of the others. A StackRecord requires an address for each.
type frameTable struct {
	byFunction map[uintptr]map[position]uintptr // by the function's entry
}

// position is a logical frame: a function and a line in it.
type position struct {
	function string
	line     int64
}

// maxFunctionSize limits how much of a function is searched for addresses.
const maxFunctionSize = 1 << 18

// record returns the stack of a sample, as runtime.Callers would have returned it: with return addresses.
func (t *frameTable) record(s *profileSample) (record StackRecord) {
	n := 0
	add := func(pc uintptr) {
		if n < len(record.Stack0) {
			record.Stack0[n] = pc + 1
			n++
		}
	}
	for _, loc := range s.stack {
		add(uintptr(loc.address))
		for i := 1; i < len(loc.lines) && n < len(record.Stack0); i++ {
			if pc, ok := t.find(uintptr(loc.address), loc.lines[i]); ok {
				add(pc)
			}
		}
	}
	return record
}

// find returns an address in the function that contains pc, at which the innermost frame is the one at a position.
func (t *frameTable) find(pc uintptr, at position) (found uintptr, ok bool) {
	f := runtime.FuncForPC(pc)
	if f == nil {
		return 0, false
	}
	positions, ok := t.byFunction[f.Entry()]
	if !ok {
		positions = positionsOf(f.Entry())
		if t.byFunction == nil {
			t.byFunction = map[uintptr]map[position]uintptr{}
		}
		t.byFunction[f.Entry()] = positions
	}
	found, ok = positions[position{plainName(at.function), at.line}]
	return found, ok
}

// positionsOf returns the first address of each position in a function.
func positionsOf(entry uintptr) map[position]uintptr {
	positions := map[position]uintptr{}
	for pc := entry; pc < entry+maxFunctionSize; pc++ {
		if f := runtime.FuncForPC(pc); f == nil || f.Entry() != entry {
			break
		}
		frame, _ := runtime.CallersFrames([]uintptr{pc + 1}).Next()
		at := position{plainName(frame.Function), int64(frame.Line)}
		if _, dup := positions[at]; !dup {
			positions[at] = pc
		}
	}
	return positions
}

// plainName removes type arguments, which a profile spells in full and runtime.Frame does not.
func plainName(function string) string {
	begin, end := strings.IndexByte(function, '['), strings.LastIndexByte(function, ']')
	if begin < 0 || end < begin {
		return function
	}
	return function[:begin] + function[end+1:]
}
