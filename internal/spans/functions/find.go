package functions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/gobin"
)

const (
	oldest = 19 // the minor version of the oldest Go release that is supported

	// MaxFunctions is the largest number of functions that can be selected.
	MaxFunctions = 64

	maxMatching = 1 << 10 // functions that patterns match, observable or not
	maxNamed    = 5       // functions that a warning names
)

// ErrSelection reports patterns that select no function that can be observed, or too many.
var ErrSelection = errors.New("cannot select functions")

// A Function is one that is selected: a function in the machine code. Instances of a generic function for different types are
// different functions with the same name.
type Function struct {
	name    string
	pkg     string
	file    string
	line    int
	entry   uint64 // in the image
	params  []value
	results []value
	words   int // registers that have parameters
}

// Name returns the full name of the function.
func (f *Function) Name() string { return f.name }

// Match reports whether a pattern matches the full name of a function, such as "main.(*Store).Get". An asterisk in a pattern matches any
// text, also a slash, a dot or nothing. An asterisk that follows an opening parenthesis is that of a pointer receiver. All other
// characters match themselves.
func Match(pattern, name string) bool {
	if pattern == name {
		return true
	}
	parts := split(pattern)
	if len(parts) == 1 || !strings.HasPrefix(name, parts[0]) {
		return false
	}
	last := len(parts) - 1
	for name = name[len(parts[0]):]; len(parts) > 2; parts = parts[1:] {
		i := strings.Index(name, parts[1])
		if i < 0 {
			return false
		}
		name = name[i+len(parts[1]):]
	}
	return last > 0 && strings.HasSuffix(name, parts[len(parts)-1])
}

// split returns the parts of a pattern between asterisks that match any text.
func split(pattern string) []string {
	var parts []string
	begin := 0
	for i := range len(pattern) {
		if pattern[i] == '*' && (i == 0 || pattern[i-1] != '(') {
			parts = append(parts, pattern[begin:i])
			begin = i + 1
		}
	}
	return append(parts, pattern[begin:])
}

// A finder finds the functions that patterns match.
type finder struct {
	bin      *gobin.Binary
	patterns []string
	matched  []bool // by pattern
	refused  map[string][]string
	warnings []event.Warning
}

// Find returns the functions of an executable that patterns match and that can be observed. The warnings name those that cannot, and why.
// The error wraps ErrSelection if a pattern matches none, or if the patterns match more than MaxFunctions.
func Find(bin *gobin.Binary, patterns []string) ([]*Function, []event.Warning, error) {
	if bin.Version().Minor < oldest {
		return nil, nil, fmt.Errorf("%w: the program was built by %s; functions are supported since Go 1.%d", ErrSelection, bin.GoVersion(), oldest)
	}
	f := &finder{bin: bin, patterns: patterns, matched: make([]bool, len(patterns)), refused: map[string][]string{}}
	funcs := f.matching()
	if n := len(funcs); n > maxMatching {
		return nil, nil, fmt.Errorf("%w: %s match, want at most %d", ErrSelection, english.Count(n, "function"), MaxFunctions)
	}
	inlined := bin.Inlined(f.match)
	f.checkInlined(funcs, inlined)
	for i, ok := range f.matched {
		if !ok {
			return nil, nil, fmt.Errorf("%w: no function of the program matches %q", ErrSelection, patterns[i])
		}
	}
	var list []*Function
	for _, fn := range funcs {
		if why := f.refuses(fn); why != "" {
			f.refuse(fn.Name, why)
			continue
		}
		list = append(list, f.describe(fn))
	}
	f.warnRefused()
	switch n := len(list); {
	case n == 0:
		return nil, nil, fmt.Errorf("%w: %s", ErrSelection, strings.Join(event.WarningTexts(f.warnings), "; "))
	case n > MaxFunctions:
		return nil, nil, fmt.Errorf("%w: %s match, want at most %d", ErrSelection, english.Count(n, "function"), MaxFunctions)
	}
	f.readValues(list, funcs)
	return list, f.warnings, nil
}

// match reports whether a pattern matches a name, and notes which do.
func (f *finder) match(name string) bool {
	found := false
	for i, p := range f.patterns {
		if Match(p, name) {
			found, f.matched[i] = true, true
		}
	}
	return found
}

// named reports whether one of the patterns is a name.
func (f *finder) named(name string) bool {
	return slices.ContainsFunc(f.patterns, func(p string) bool { return p == name })
}

// matching returns the functions that patterns match. Those that the compiler has generated must be named.
func (f *finder) matching() []gobin.Func {
	var list []gobin.Func
	real := map[string]bool{} // names of functions that the compiler has not generated
	for fn := range f.bin.Functions() {
		wrapper := f.bin.Wrapper(fn)
		if !f.match(fn.Name) || wrapper && !f.named(fn.Name) {
			continue
		}
		real[fn.Name] = real[fn.Name] || !wrapper
		list = append(list, fn)
	}
	// A function that assembly code calls has a second entry of the same name, which only adapts the arguments.
	return slices.DeleteFunc(list, func(fn gobin.Func) bool { return real[fn.Name] && f.bin.Wrapper(fn) })
}

// checkInlined warns about calls that are inlined. inlined are the functions into which calls are inlined, by name.
func (f *finder) checkInlined(funcs []gobin.Func, inlined map[string][]string) {
	var partly []string
	for name := range inlined {
		if slices.ContainsFunc(funcs, func(fn gobin.Func) bool { return fn.Name == name }) {
			partly = append(partly, name)
		} else {
			f.refuse(name, "inlined into all of their callers")
		}
	}
	if len(partly) > maxNamed {
		f.warnings = append(f.warnings, event.Warnf(event.WarnMissing, "inlined calls of %s are not reported", some(partly)))
		return
	}
	slices.Sort(partly)
	for _, name := range partly {
		f.warnings = append(f.warnings, event.Warnf(event.WarnMissing, "calls of %s that are inlined into %s are not reported", name, some(inlined[name])))
	}
}

// refuse notes why a function cannot be observed.
func (f *finder) refuse(name, why string) {
	if !slices.Contains(f.refused[why], name) {
		f.refused[why] = append(f.refused[why], name)
	}
}

// warnRefused warns about the functions that cannot be observed.
func (f *finder) warnRefused() {
	for _, why := range slices.Sorted(maps.Keys(f.refused)) {
		f.warnings = append(f.warnings, event.Warnf(event.WarnMissing, "calls of %s are not reported: %s", some(f.refused[why]), why))
	}
}

// some returns the first names of a list, and the number of the others.
func some(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	if n := len(names); n > maxNamed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), n-maxNamed)
	}
	return strings.Join(names, ", ")
}

// runtimePackages are packages of the runtime, or begin the paths of those. Their functions can be called where no probe may be.
var runtimePackages = []string{"runtime", "internal/runtime/", "runtime/internal/", "internal/abi", "internal/bytealg", "internal/cpu", "internal/chacha8rand"}

// refuses returns the reason why a function cannot be observed; empty if it can.
func (f *finder) refuses(fn gobin.Func) string {
	pkg := packageOf(fn.Name)
	switch {
	case slices.ContainsFunc(runtimePackages, func(p string) bool { return p == pkg || p[len(p)-1] == '/' && strings.HasPrefix(pkg, p) }):
		return "part of the Go runtime"
	case f.bin.Assembler(fn):
		return "written in assembler"
	case f.bin.Wrapper(fn), strings.HasPrefix(fn.Name, "type:"), strings.HasPrefix(fn.Name, "type.."):
		return "generated by the compiler"
	}
	calls, err := f.bin.CallSites(fn)
	if err != nil {
		return err.Error()
	}
	for _, c := range calls {
		if c.Tail {
			return "ends with a jump to another function"
		}
	}
	returns, err := f.bin.ReturnSites(fn)
	switch {
	case err != nil:
		return err.Error()
	case len(returns) == 0:
		return "never returns"
	}
	return ""
}

// packageOf returns the path of the package in the name of a function.
func packageOf(name string) string {
	if i := strings.IndexByte(name, '['); i >= 0 {
		name = name[:i]
	}
	slash := strings.LastIndexByte(name, '/') + 1
	if i := strings.IndexByte(name[slash:], '.'); i >= 0 {
		name = name[:slash+i]
	}
	return strings.ReplaceAll(name, "%2e", ".")
}

// describe returns a selected function, without its values.
func (f *finder) describe(fn gobin.Func) *Function {
	calls := f.bin.Calls(fn, fn.Entry)
	outer := calls[len(calls)-1]
	return &Function{name: fn.Name, pkg: packageOf(fn.Name), entry: fn.Entry, file: outer.File, line: outer.StartLine}
}

// readValues reads which parameters and results the functions have.
func (f *finder) readValues(list []*Function, funcs []gobin.Func) {
	signatures, err := f.bin.Signatures()
	if errors.Is(err, gobin.ErrNoSignature) {
		err = errors.New("the executable has no debug information")
	}
	if err != nil {
		f.warnings = append(f.warnings, event.Warnf(event.WarnMissing, "parameters and results of functions are not reported: %v", err))
		return
	}
	unknown := map[string][]string{}
	for _, to := range list {
		i := slices.IndexFunc(funcs, func(fn gobin.Func) bool { return fn.Entry == to.entry })
		variables, err := signatures.Of(funcs[i])
		ok := false
		if err == nil {
			to.params, to.results, to.words, ok = values(f.bin, funcs[i], variables)
		}
		if err == nil && !ok {
			err = errors.New("the debug information does not say how they are passed")
		}
		if err != nil {
			unknown[err.Error()] = append(unknown[err.Error()], to.name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(unknown)) {
		f.warnings = append(f.warnings, event.Warnf(event.WarnMissing, "parameters and results of %s are not reported: %s", some(unknown[why]), why))
	}
}
