// Command symbols prints what ResolveSymbol and the block profile say in a program with or without a symbol table.
package main

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"unsafe"

	"github.com/loupe-go/loupe/glti"
)

var config = struct{ port int }{8080}

type server struct{ requests int }

//go:noinline
func (s *server) handle(n int) int { s.requests += n; return s.requests }

//go:noinline
func generic[T any](v T) T { return v }

func main() {
	env := glti.NewEnv("symbols")
	want := func(name string, addr uintptr) {
		if got := env.ResolveSymbol(name); got != addr {
			fmt.Printf("%s is at %#x, want %#x\n", name, got, addr)
			os.Exit(1)
		}
	}
	want("main.main", reflect.ValueOf(main).Pointer())
	want("main.(*server).handle", reflect.ValueOf((*server).handle).Pointer())
	want("os.ReadFile", reflect.ValueOf(os.ReadFile).Pointer())
	want("runtime.GC", reflect.ValueOf(runtime.GC).Pointer())
	want("main.missing", 0)
	variable := uintptr(unsafe.Pointer(&config))
	if len(os.Args) > 1 { // without a symbol table
		variable = 0
	}
	want("main.config", variable)
	new(server).handle(config.port + generic(1))
	if f := env.FuncForPC(env.ResolveSymbol("main.main")); f == nil || f.Name() != "main.main" {
		fmt.Println("FuncForPC of main.main:", f)
		os.Exit(1)
	}
	fmt.Println("ok")
}
