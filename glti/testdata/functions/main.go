// Command functions compares the types of its functions with those that package reflect has, and calls the functions by their addresses.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/glti"
)

type pair struct {
	a, b int
}

type mixed struct {
	flag  bool
	text  string
	ratio float32
	list  []int
	inner pair
}

type number float64

type adder interface{ Add(n int) int }

func (p pair) Sum() int                        { return p.a + p.b }
func (p *pair) Add(n int) int                  { p.a += n; return p.a }
func (n number) Twice() number                 { return 2 * n }
func (m *mixed) Texts(more ...string) []string { return append([]string{m.text}, more...) }

//go:noinline
func none() { calls++ }

var calls int

func ints(a int, b int8, c uint16, d int32, e uint64) (int64, int8) {
	return int64(a) + int64(b) + int64(c) + int64(d) + int64(e), b
}

func floats(a float64, b float32, c complex128) (float64, complex128) { return a + float64(b), c * c }

func texts(a, b string) (string, bool) { return a + b, a < b }

func structs(p pair, q *pair, n number) (mixed, pair, *pair) {
	return mixed{inner: p, text: "structs"}, pair{p.b, p.a}, q
}

func large(m mixed, n int) (int, mixed) { m.inner.a = n; return n, m }

func many(a, b, c, d, e, f, g, h, i, j int) (k, l, m, n, o, p, q, r, s, t, sum int) {
	return j, i, h, g, f, e, d, c, b, a, a + b + c + d + e + f + g + h + i + j
}

func arrays(a [4]int, b [1]string, c [0]int) ([4]int, [1]string) {
	a[0], a[3] = a[3], a[0]
	return a, b
}

func bytes(a, b, c bool, d int8, e bool) (bool, int8, bool) { return a && b, d, c || e }

func blanks(_ int, a string, _ bool) (_ int, b string, _ error) { return 0, a, nil }

func unnamed(int, string) (int, error) { return 0, errors.New("unnamed") }

func unused(a int, b string, c []byte) {}

func empty(a struct{}, b int, c struct{}) (struct{}, int) { return a, b }

func variadic(format string, list ...int) string { return fmt.Sprintf(format, len(list)) }

func interfaces(a any, b error, c adder, d io.Writer) (error, any, int) { return b, a, c.Add(1) }

func references(m map[string]int, c chan int, f func(int) string, p unsafe.Pointer) (int, map[string]int, func(int) string) {
	return len(m) + cap(c), m, f
}

func recursive(n int) int {
	if n < 2 {
		return n
	}
	return recursive(n-1) + recursive(n-2)
}

func deep(n int) int { // grows the stack
	var frame [128]int
	frame[n%128] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + frame[n%128]/n
}

func escapes(a int, b pair) (*int, *pair) { return &a, &b }

func inlined(a int, b string) (string, int) { return b, a }

func inlinedBlank(_ int, b string) (_ int, c string) { return 1, b }

func inlinedResult(a int) (_ int, b string) { b = "text"; return a, b }

func wide(a, b, c, d string, e []int, f int) {}

func panics(what string) int {
	if what != "" {
		panic(what)
	}
	var m map[string]int
	m["x"] = 1
	return 1
}

func generic[T any](a T) T { return a }

//go:noinline
func closure(n int) func(int) int { return func(a int) int { return a + n } }

// functions are functions whose types are known.
var functions = []any{none, ints, floats, texts, structs, large, many, arrays, bytes, unused, empty, variadic, interfaces, references,
	recursive, deep, escapes, inlined, inlinedResult, pair.Sum, (*pair).Add, number.Twice, (*mixed).Texts,
	strings.Repeat, strings.ToUpper, os.Getenv, time.Duration.String, fmt.Sprint, (*strings.Builder).WriteString, errors.Is}

// doubtful are functions of which debug information lacks parameters in some releases.
var doubtful = []any{blanks, unnamed, inlinedBlank, panics}

var failed bool

func fail(format string, args ...any) {
	failed = true
	fmt.Printf(format+"\n", args...)
}

func main() {
	var reports []glti.Report
	glti.SetReportHandler(func(r glti.Report) { reports = append(reports, r) })
	env := glti.NewEnv("functions")
	defer env.Close()
	for _, c := range env.Capabilities() {
		if (c.Method == "FuncForName" || c.Method == "ReflectCall") && !c.Available {
			stripped(env, c)
			return
		}
	}
	// The same results as from inlined calls.
	if s, n := inlined(1, "x"); s != "x" || n != 1 {
		fail("inlined")
	}
	if n, s := inlinedResult(1); s != "text" || n != 1 {
		fail("inlinedResult")
	}
	if n, s := inlinedBlank(1, "x"); s != "x" || n != 1 {
		fail("inlinedBlank")
	}
	for _, f := range functions {
		compare(env, f)
		call(env, f)
	}
	if len(reports) > 0 {
		fail("reports: %v", reports)
	}
	for _, f := range doubtful {
		if got, want := env.FuncForName(nameOf(f)), plain(reflect.TypeOf(f)); got != nil && got.Type != want {
			fail("%s is %v, expected %v", nameOf(f), got, want)
		}
	}
	refused(env)
	panicked(env)
	if n := calls; n != 1 {
		fail("none was called %d times", n)
	}
	if !failed {
		fmt.Println("ok")
	}
}

func nameOf(f any) string { return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name() }

// plain returns the type of a function without the mark of variadic ones.
func plain(t reflect.Type) reflect.Type {
	var in, out []reflect.Type
	for i := 0; i < t.NumIn(); i++ {
		in = append(in, t.In(i))
	}
	for i := 0; i < t.NumOut(); i++ {
		out = append(out, t.Out(i))
	}
	return reflect.FuncOf(in, out, false)
}

func compare(env *glti.GLTIEnv, f any) {
	name, want := nameOf(f), plain(reflect.TypeOf(f))
	got := env.FuncForName(name)
	if got == nil || got.Type != want || got.ABI != 1 {
		fail("%s is %v, expected %v", name, got, want)
	}
	addr := env.ResolveSymbol(name)
	if addr != reflect.ValueOf(f).Pointer() || env.FuncForPC(addr).Name() != name {
		fail("%s is at %#x, expected %#x", name, addr, reflect.ValueOf(f).Pointer())
	}
}

// call calls a function by its address, and by package reflect, with the same arguments.
func call(env *glti.GLTIEnv, f any) {
	name, t := nameOf(f), plain(reflect.TypeOf(f))
	var fields []reflect.StructField
	for i := 0; i < t.NumIn(); i++ {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("In", i), Type: t.In(i)})
	}
	word := reflect.StructField{Name: "Align", Type: reflect.TypeOf([0]uintptr{})}
	fields = append(fields, word)
	first := len(fields)
	for i := 0; i < t.NumOut(); i++ {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("Out", i), Type: t.Out(i)})
	}
	frame := reflect.New(reflect.StructOf(fields)) // in the heap
	var in []reflect.Value
	for i := 0; i < t.NumIn(); i++ {
		v := argument(name, t.In(i), i)
		in = append(in, v)
		frame.Elem().Field(i).Set(v)
	}
	size := frame.Elem().Type().Size()
	// The compiler adds a byte after a last field without size.
	if n := frame.Elem().NumField(); n > 0 && frame.Elem().Field(n-1).Type().Size() == 0 {
		size = frame.Elem().Type().Field(n - 1).Offset
	}
	size = (size + 7) &^ 7
	if size != uintptr(uint32(size)) {
		fail("%s: frame of %d bytes", name, size)
	}
	if name == "main.none" {
		size = 0
	}
	if err := env.ReflectCall(env.ResolveSymbol(name), frame.Pointer(), uint32(size)); err != nil {
		fail("%s: %v", name, err)
		return
	}
	runtime.GC()
	if name == "main.none" {
		return
	}
	var want []reflect.Value
	if v := reflect.ValueOf(f); v.Type().IsVariadic() {
		want = v.CallSlice(in)
	} else {
		want = v.Call(in)
	}
	for i, w := range want {
		got := frame.Elem().Field(first + i)
		if w.Kind() == reflect.Func {
			if got.Pointer() != w.Pointer() {
				fail("%s: result %d is another function", name, i)
			}
			continue
		}
		if name == "main.interfaces" && i == 2 {
			if w.Int() != got.Int()+1 {
				fail("%s: the method was not called once each", name)
			}
			continue
		}
		if name == "main.(*pair).Add" { // it was called twice
			continue
		}
		if !reflect.DeepEqual(got.Interface(), w.Interface()) {
			fail("%s: result %d is %v, expected %v", name, i, got, w)
		}
	}
	runtime.KeepAlive(frame)
}

// argument returns a value of a type that depends on a number.
func argument(name string, t reflect.Type, n int) reflect.Value {
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(n + 3))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(n + 200))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(n) + 0.5)
	case reflect.Complex128:
		v.SetComplex(complex(float64(n), 2))
	case reflect.Bool:
		v.SetBool(n%2 == 0)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d ", n))
	case reflect.Slice:
		v = reflect.MakeSlice(t, n+1, n+2)
	case reflect.Map:
		v = reflect.MakeMap(t)
	case reflect.Chan:
		v = reflect.MakeChan(t, n)
	case reflect.Pointer:
		v = reflect.New(t.Elem())
	case reflect.Func:
		v = reflect.ValueOf(func(n int) string { return fmt.Sprint(n) })
	case reflect.Array:
		for i := 0; i < t.Len(); i++ {
			v.Index(i).Set(argument(name, t.Elem(), n+i))
		}
	case reflect.Struct:
		switch p := v.Addr().Interface().(type) {
		case *pair:
			*p = pair{n, n + 1}
		case *mixed:
			*p = mixed{true, "mixed", 0.25, []int{n}, pair{n, 7}}
		}
	case reflect.Interface:
		switch {
		case reflect.TypeOf(&pair{}).Implements(t):
			v.Set(reflect.ValueOf(&pair{n, n}))
		case reflect.TypeOf(os.Stdout).Implements(t):
			v.Set(reflect.ValueOf(os.Stdout))
		default:
			v.Set(reflect.ValueOf(io.EOF))
		}
	}
	return v
}

// refused calls what must not be called.
func refused(env *glti.GLTIEnv) {
	f := closure(1)
	generic(1)
	fn := func(f any) uintptr { return reflect.ValueOf(f).Pointer() }
	frame := new([64]uintptr)
	at := uintptr(unsafe.Pointer(frame))
	for why, try := range map[string]struct {
		fn, arg uintptr
		size    uint32
	}{
		"a closure":                     {fn(f), at, 16},
		"no function begins":            {fn(none) + 1, at, 0},
		"a frame of main.ints has":      {fn(ints), at, 8},
		"is not the address of a frame": {fn(recursive), 0, 16},
		"is not in memory":              {fn(recursive), 4096, 16},
		"internal to the runtime":       {env.ResolveSymbol("runtime.gopark"), at, 0},
		"is generic":                    {fn(generic[int]), at, 0},
		"more than ten words":           {fn(wide), at, 0},
		"no function begins at 0x1":     {1, at, 0},
		"is written in assembly":        {env.ResolveSymbol("internal/bytealg.Count"), at, 0},
		"is a closure":                  {fn((&pair{}).Add), at, 0},
	} {
		err := env.ReflectCall(try.fn, try.arg, try.size)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "10", "ten"), why) && why != "is written in assembly" && why != "is generic" {
			fail("expected %q: %v", why, err)
		}
	}
	wide("", "", "", "", nil, 0)
	if env.FuncForName("main.missing") != nil || env.FuncForName("main.calls") != nil || env.ResolveSymbol("main.calls") != uintptr(unsafe.Pointer(&calls)) {
		fail("missing or variable")
	}
	runtime.KeepAlive(frame)
}

// panicked calls functions that panic.
func panicked(env *glti.GLTIEnv) {
	frame := &struct {
		what   string
		result int
	}{"reason", 5}
	err := env.ReflectCall(env.ResolveSymbol("main.panics"), uintptr(unsafe.Pointer(frame)), 24)
	var call *glti.CallError
	if !errors.As(err, &call) || call.Value != "reason" || call.Func != "main.panics" || !strings.Contains(string(call.Stack), "main.panics") || frame.result != 5 {
		fail("panic: %v, result %d", err, frame.result)
	}
	frame.what = ""
	err = env.ReflectCall(env.ResolveSymbol("main.panics"), uintptr(unsafe.Pointer(frame)), 24)
	var cause runtime.Error
	if !errors.As(err, &cause) {
		fail("run-time panic: %v", err)
	}
}

// stripped checks a program without debug information.
func stripped(env *glti.GLTIEnv, c glti.Capability) {
	err := env.ReflectCall(env.ResolveSymbol("main.none"), 0, 0)
	if !strings.Contains(c.Why, "without debug information") || env.FuncForName("main.none") != nil || !errors.Is(err, glti.ErrUnavailable) || calls != 0 {
		fail("%s, %v", c, err)
	}
	if !failed {
		fmt.Println("ok stripped")
	}
}
