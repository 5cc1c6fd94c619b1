package functions

import (
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
)

// Forms of values, as in probes.c. A value without a form is not read: only its type is reported.
const (
	formNone = iota
	formWord
	formString
	formLength
	formInterface
	formEmpty
	formError
)

const (
	maxValues  = 8      // parameters, or results, that are read
	onStack    = 0x8000 // of a word: it is on the stack, at an offset in the area of the arguments
	maxPayload = 512    // bytes of a note before its last text, as in probes.c
	maxText    = 64     // bytes of a text
	maxSteps   = 1 << 12
	maxSize    = onStack / 4 // bytes of a value, and of those before it on the stack
)

// noteSizes are the bytes of a note that values take at most, by form.
var noteSizes = [...]int{0, 8, 24 + maxText, 8, 16, 8, 40 + maxText}

// A value is a parameter or a result.
type value struct {
	key  string // of its attribute
	typ  *gobin.Type
	form int
	at   [2]int // where its first two words are: the number of a register, or onStack and an offset
}

// setting returns the value in the form of the C half.
func (v *value) setting() uint64 {
	return uint64(v.form) | uint64(v.at[0])<<16 | uint64(v.at[1])<<32
}

// registers are the numbers of registers that pass integers and floating point numbers, by architecture.
var registers = map[string][2]int{insn.AMD64: {9, 15}, insn.ARM64: {16, 16}}

// An assigner assigns values to registers and to the stack, as the compiler does (src/cmd/compile/abi-internal.md).
type assigner struct {
	limits       [2]int // of ints and floats
	ints, floats int    // registers that have values
	stack        int    // offset of the next value in the area of the arguments
	spill        int    // size of the room for values that are in registers
	words        []int  // the registers of the current value
	failed       bool   // the current value does not fit into the registers that are left
	unknown      bool   // a value has a type that is not understood
	steps        int    // types that were looked at
}

// assign returns where the first two words of a value are.
func (a *assigner) assign(t *gobin.Type) (at [2]int) {
	if t.Size < 0 || t.Size > maxSize || t.Align <= 0 || a.stack > maxSize {
		a.unknown = true
		return at
	}
	ints, floats := a.ints, a.floats
	a.words, a.failed = a.words[:0], t.Size == 0
	a.registers(t)
	if a.failed {
		a.ints, a.floats = ints, floats
		a.stack = alignUp(a.stack, t.Align)
		at = [2]int{onStack | a.stack, onStack | (a.stack + 8)}
		a.stack += t.Size
		return at
	}
	a.spill = alignUp(a.spill, t.Align) + t.Size
	copy(at[:], a.words)
	return at
}

// registers assigns a value to registers, or sets failed.
func (a *assigner) registers(t *gobin.Type) {
	if a.steps++; a.steps > maxSteps {
		a.unknown = true
		return
	}
	switch t.Kind {
	case gobin.KindBool, gobin.KindInt, gobin.KindUint, gobin.KindPointer:
		a.integers(1)
	case gobin.KindString, gobin.KindInterface, gobin.KindEmpty:
		a.integers(2)
	case gobin.KindSlice:
		a.integers(3)
	case gobin.KindFloat:
		a.floats++
	case gobin.KindComplex:
		a.floats += 2
	case gobin.KindStruct:
		for _, f := range t.Fields {
			a.registers(f.Type)
		}
	case gobin.KindArray:
		switch t.Len {
		case 0:
		case 1:
			a.registers(t.Elem)
		default:
			a.failed = true
		}
	default:
		a.unknown = true
	}
	a.failed = a.failed || a.ints > a.limits[0] || a.floats > a.limits[1]
}

// integers assigns words to registers.
func (a *assigner) integers(n int) {
	for range n {
		a.words = append(a.words, a.ints)
		a.ints++
	}
}

func alignUp(n, to int) int { return (n + to - 1) / to * to }

// dictionary is the name of the parameter by which a generic function gets its types.
const dictionary = ".dict"

// values returns the parameters and results of a function, and the number of registers that the parameters that are read have. ok is false
// if the debug information does not agree with the size of their area, which the compiler has recorded.
func values(bin *gobin.Binary, f gobin.Func, list []gobin.Variable) (params, results []value, words int, ok bool) {
	if !insn.ArgsInRegs(bin.Arch(), bin.Version().Minor) {
		return nil, nil, 0, false
	}
	a := assigner{limits: registers[bin.Arch()]}
	if !hasDictionary(list) {
		at, known := dictionaryAt(bin, f)
		if !known {
			return nil, nil, 0, false
		}
		if at >= 0 {
			list = withDictionary(list, at)
		}
	}
	for _, v := range list {
		if v.Result {
			continue
		}
		at := a.assign(v.Type)
		if v.Name != dictionary {
			params = append(params, value{key: "loupe.go.arg." + paramName(v.Name, len(params)), typ: v.Type, at: at})
		}
	}
	spill := a.spill
	a.ints, a.floats, a.stack = 0, 0, alignUp(a.stack, 8)
	for _, v := range list {
		if v.Result {
			results = append(results, value{key: "loupe.go.result." + strconv.Itoa(len(results)), typ: v.Type, at: a.assign(v.Type)})
		}
	}
	// Some releases omit parameters without a name.
	if size, known := bin.ArgsSize(f); a.unknown || !known || size != alignUp(a.stack, 8)+alignUp(spill, 8) {
		return nil, nil, 0, false
	}
	choose(params)
	choose(results)
	for _, v := range params {
		words = max(words, v.registers())
	}
	return params, results, words, true
}

// choose sets how values are read, as far as a note has room.
func choose(list []value) {
	read, size := 0, 8
	for i := range list {
		v := &list[i]
		form := formOf(v.typ)
		if form == formNone || read == maxValues || size+noteSizes[form] > maxPayload {
			continue
		}
		v.form, read, size = form, read+1, size+noteSizes[form]
	}
}

// formOf returns how a value of a type is read.
func formOf(t *gobin.Type) int {
	switch t.Kind {
	case gobin.KindBool, gobin.KindInt, gobin.KindUint, gobin.KindPointer:
		return formWord
	case gobin.KindString:
		return formString
	case gobin.KindSlice:
		return formLength
	case gobin.KindEmpty:
		return formEmpty
	case gobin.KindInterface:
		if t.Name == "error" {
			return formError
		}
		return formInterface
	}
	return formNone
}

// registers returns the number of registers up to the last one from which a value is read.
func (v *value) registers() int {
	n := 0
	for i, at := range v.at {
		second := v.form == formString || v.form == formLength || v.form == formError
		if v.form != formNone && at&onStack == 0 && (i == 0 || second) {
			n = max(n, at+1)
		}
	}
	return n
}

// dictionaryAt returns the place of the parameter for types among the parameters that an instance of a generic function has without it;
// -1 if the function has none. ok is false if the place is unknown.
func dictionaryAt(bin *gobin.Binary, f gobin.Func) (at int, ok bool) {
	if !strings.Contains(f.Name, "[...]") {
		return -1, true
	}
	switch rest := f.Name[strings.LastIndexByte(f.Name, ']')+1:]; {
	case rest == "":
		return 0, true
	case strings.Contains(rest, ".func"), strings.Contains(rest, "-range"): // a closure has the types of the function around it
		return -1, true
	}
	return 1, bin.Version().Minor >= unified // a method
}

// unified is the minor version of the first release in which the receiver of a generic method precedes the parameter for types.
const unified = 20

func hasDictionary(list []gobin.Variable) bool {
	for _, v := range list {
		if v.Name == dictionary {
			return true
		}
	}
	return false
}

// withDictionary returns a list with the parameter for types, which some releases do not list.
func withDictionary(list []gobin.Variable, at int) []gobin.Variable {
	d := gobin.Variable{Name: dictionary, Type: &gobin.Type{Kind: gobin.KindPointer, Size: 8, Align: 8}}
	return slices.Insert(slices.Clone(list), min(at, len(list)), d)
}

// paramName returns the name of a parameter; that of one without a name is its number.
func paramName(name string, n int) string {
	if name == "" || name == "_" || strings.HasPrefix(name, "~") {
		return strconv.Itoa(n)
	}
	return name
}
