// Command table compares what the table of functions of native agents says with what the runtime says.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../../../../glti/include
#include <stdint.h>
#include <stdlib.h>
#include "glti.h"

struct probed {
	const char *name;
	uint64_t pc;
	void *set;
	struct glti_g of;
	const char *go_version;
	uint64_t symbol;
	struct glti_func func;
	struct glti_g g;
	void *local;
	int32_t func_status, local_status, set_status, elsewhere;
	int64_t now;
};

static void call_probe(const char *variable, struct probed *p) { ((void (*)(struct probed *))(uintptr_t)strtoull(getenv(variable), NULL, 10))(p); }
*/
import "C"

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// probe asks agent 1, or 2.
func probe(agent int, name string, pc, set uintptr) C.struct_probed {
	return probeOf(agent, C.struct_glti_g{}, name, pc, set)
}

// probeOf asks about a goroutine.
func probeOf(agent int, g C.struct_glti_g, name string, pc, set uintptr) C.struct_probed {
	p := (*C.struct_probed)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_probed{}))))
	defer C.free(unsafe.Pointer(p))
	p.name, p.pc, p.of = C.CString(name), C.uint64_t(pc), g
	*(*uintptr)(unsafe.Pointer(&p.set)) = set
	C.call_probe(C.CString(map[int]string{1: "PROBE", 2: "PROBE2"}[agent]), p)
	return *p
}

func main() {
	p := probe(1, "main.main", 0, 0)
	version, _, _ := strings.Cut(runtime.Version(), " ")
	version, _, _ = strings.Cut(version, "-")
	check(C.GoString(p.go_version) == version, "go_version", C.GoString(p.go_version))
	check(uintptr(p.symbol) == reflect.ValueOf(main).Pointer(), "resolve_symbol", p.symbol)
	check(p.elsewhere == 0, "another thread", p.elsewhere)
	check(p.now > 0 && probe(1, "", 0, 0).now >= p.now, "now", p.now)
	functions()
	variables()
	goroutines()
	ended()
	fmt.Println("ok")
}

// variable is what the agent finds by its name, if the program has a symbol table.
var variable = 1

func variables() {
	p := probe(1, "main.variable", 0, 0)
	stripped := len(os.Args) > 1 && os.Args[1] == "stripped"
	check(p.symbol == 0 && stripped || uintptr(p.symbol) == uintptr(unsafe.Pointer(&variable)), "variable", p.symbol, &variable)
	check(probe(1, "main.absent", 0, 0).symbol == 0, "absent")
}

type method struct{}

//go:noinline
func (*method) do() uintptr {
	pc, _, _, _ := runtime.Caller(0)
	return pc
}

// functions compares names, addresses and lines of functions.
func functions() {
	pcs := []uintptr{reflect.ValueOf(main).Pointer(), reflect.ValueOf(fmt.Println).Pointer(), reflect.ValueOf(strings.Fields).Pointer() + 20,
		reflect.ValueOf(runtime.GC).Pointer(), (*method).do(nil), reflect.ValueOf(func() {}).Pointer()}
	for _, pc := range pcs {
		f := runtime.FuncForPC(pc)
		file, line := f.FileLine(pc)
		p := probe(1, f.Name(), pc, 0)
		check(p.func_status == 0 && C.GoString(p._func.name) == f.Name() && uintptr(p._func.entry) == f.Entry() && uintptr(p.symbol) == f.Entry() &&
			C.GoString(p._func.file) == file && int(p._func.line) == line, "func_for_pc", f.Name(), file, line, C.GoString(p._func.name), C.GoString(p._func.file), p._func.line)
	}
	for _, pc := range []uintptr{0, 1, uintptr(unsafe.Pointer(&pcs[0])), ^uintptr(0)} {
		p := probe(1, "main.absent", pc, 0)
		check(p.func_status == C.GLTI_INVALID && p.symbol == 0, "no function", pc)
	}
}

// goroutines checks that a goroutine keeps its ID and its address, on whatever thread it runs, that a new one has no address, and that
// each agent has its own.
func goroutines() {
	var wg sync.WaitGroup
	for round := 0; round < 3; round++ {
		for i := 0; i < 40; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				id := goid()
				p := probe(1, "", 0, uintptr(id)*3)
				check(p.local == nil && p.set_status == 0 && uint64(p.g.id) == id && p.g.addr != 0, "new goroutine", id, p.g.id, p.local, p.set_status)
				for j := 0; j < 20; j++ {
					runtime.Gosched()
					q := probe(1, "", 0, 0)
					check(q.g == p.g && address(q.local) == uintptr(id)*3, "goroutine", id, q.g.id, q.local)
				}
				q := probe(2, "", 0, 5)
				check(q.local == nil && q.set_status == 0 && q.g == p.g, "another agent", q.local, q.set_status)
				elsewhere(p.g, uintptr(id)*3)
				check(address(probe(1, "", 0, 0).local) == uintptr(id)*3 && address(probe(2, "", 0, 0).local) == 5, "both agents", id)
			}()
		}
		wg.Wait()
	}
}

// elsewhere asks another goroutine about a goroutine. It can read its address, and set it.
func elsewhere(g C.struct_glti_g, local uintptr) {
	done := make(chan bool)
	go func() {
		p := probeOf(1, g, "", 0, 7)
		check(p.local_status == 0 && address(p.local) == local && p.set_status == 0, "another goroutine", p.local_status, p.local, p.set_status)
		p = probeOf(1, g, "", 0, local)
		check(address(p.local) == 7 && p.set_status == 0, "another goroutine", p.local, p.set_status)
		g.id++
		p = probeOf(1, g, "", 0, 7)
		check(p.local_status == 0 && p.local == nil && p.set_status == C.GLTI_INVALID, "an ended goroutine", p.local_status, p.local, p.set_status)
		close(done)
	}()
	<-done
}

// ended checks that a goroutine that has ended has no address any more, and gets none.
func ended() {
	c := make(chan C.struct_glti_g)
	go func() { c <- probe(1, "", 0, 9).g }()
	g := <-c
	for begin := time.Now(); probeOf(1, g, "", 0, 0).local != nil; runtime.Gosched() { // it ends a moment later
		check(time.Since(begin) < 10*time.Second, "ended")
	}
	p := probeOf(1, g, "", 0, 7)
	check(p.local == nil && p.set_status == C.GLTI_INVALID, "ended", p.local, p.set_status)
}

// address converts what is not the address of anything.
func address(p unsafe.Pointer) uintptr { return *(*uintptr)(unsafe.Pointer(&p)) }

// goid returns the ID that a traceback has.
func goid() uint64 {
	var buf [64]byte
	id, err := strconv.ParseUint(strings.Fields(string(buf[:runtime.Stack(buf[:], false)]))[1], 10, 64)
	check(err == nil, "stack", err)
	return id
}

func check(ok bool, what string, values ...any) {
	if !ok {
		fmt.Println("wrong", what, values)
		os.Exit(1)
	}
}
