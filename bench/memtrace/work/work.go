// Package work is what the programs of the memtrace benchmark do: they read commands on standard input, run workloads that
// allocate, and answer with their cost.
package work

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime"
	"sync"
	"syscall"
)

// loads are the workloads: each call allocates some thousand objects.
var loads = map[string]func(){"trees": trees, "json": decode, "maps": churn, "goroutines": spawn}

// Serve answers each line "LOAD GOROUTINES CALLS" with the nanoseconds of processor time and the number of allocations of
// that many calls of a workload, by that many goroutines that exist at the same time; around runs in each of them and calls
// its argument. A line "NAME" calls the function of that name in others, and is answered with "ok".
func Serve(around func(f func()), others map[string]func()) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if f, ok := others[lines.Text()]; ok {
			f()
			fmt.Println("ok")
			continue
		}
		var name string
		var goroutines, calls int
		if _, err := fmt.Sscan(lines.Text(), &name, &goroutines, &calls); err != nil || loads[name] == nil {
			log.Fatalf("unknown command %q", lines.Text())
		}
		runtime.GC()
		objects, used := mallocs(), CPU()
		run(loads[name], goroutines, calls, around)
		used = CPU() - used
		fmt.Println(used, mallocs()-objects)
	}
}

func run(load func(), goroutines, calls int, around func(f func())) {
	if goroutines == 1 {
		around(func() {
			for range calls {
				load()
			}
		})
		return
	}
	var started, ended sync.WaitGroup
	started.Add(goroutines)
	ended.Add(goroutines)
	begin := make(chan struct{})
	for i := range goroutines {
		go around(func() {
			started.Done()
			<-begin
			for n := i; n < calls; n += goroutines {
				load()
			}
			ended.Done()
		})
	}
	started.Wait()
	close(begin)
	ended.Wait()
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// CPU returns the processor time of this process in nanoseconds.
func CPU() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

type node struct{ left, right *node }

func grow(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{grow(depth - 1), grow(depth - 1)}
}

func trees() { runtime.KeepAlive(grow(10)) }

var document = func() []byte {
	type order struct {
		ID    int
		Name  string
		Price float64
		Tags  []string
	}
	var orders []order
	for i := range 50 {
		orders = append(orders, order{i, fmt.Sprint("order ", i), 1.5 * float64(i), []string{"new", "paid", "sent"}})
	}
	b, err := json.Marshal(orders)
	if err != nil {
		panic(err)
	}
	return b
}()

func decode() {
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		panic(err)
	}
	runtime.KeepAlive(v)
}

// Goroutines is the number of goroutines that a call of the workload "goroutines" starts.
const Goroutines = 1000

// spawn starts goroutines that allocate one object each.
func spawn() {
	var ended sync.WaitGroup
	for range Goroutines {
		ended.Add(1)
		go func() {
			runtime.KeepAlive(grow(0))
			ended.Done()
		}()
	}
	ended.Wait()
}

func churn() {
	m := map[int]*node{}
	for i := range 1000 {
		m[i] = &node{}
		if i >= 100 {
			delete(m, i-100)
		}
	}
}
