// Command larder keeps memory, and prints what its runtime says about it. It has a loop of its own instead of serve, so that nothing is
// allocated from one `books` to the next.
//
// Its commands are
//
//	books         prints one line of JSON: the fields of runtime.MemStats, and under "metrics" those of runtime/metrics. Floating
//	              point numbers are printed as the bits of a float64
//	keep N SIZE   keeps N more objects of SIZE bytes
//	classes       keeps an object of each size class, and some that are larger
//	drop          keeps nothing any more
//	gc            collects garbage twice
//	percent N     sets GOGC
//	limit N       sets GOMEMLIMIT (Go 1.19)
//	free          returns memory to the kernel
//	stacks N      starts N goroutines with stacks of 32 KiB or more
//	map N         maps N bytes of memory outside the Go heap and writes to them
//	churn N       starts N goroutines that allocate until `still`
//	still         ends them
//	where         answers the address of an object that it keeps
//	arena N SIZE  allocates N objects of SIZE bytes with package arena, and frees them (GOEXPERIMENT=arenas)
//
// Each answers its own name, unless it says otherwise.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var commands = map[string]func(n, size int){
	"keep": keep, "classes": keepClasses, "drop": drop, "gc": func(int, int) { runtime.GC(); runtime.GC() },
	"percent": func(n, _ int) { debug.SetGCPercent(n) }, "limit": func(n, _ int) { setLimit(int64(n)) },
	"free": func(int, int) { debug.FreeOSMemory() }, "stacks": startStacks, "map": mapMemory, "churn": churn, "still": still,
}

var books = []byte("books")

func main() {
	prepare()
	fmt.Printf("ready %d\n", os.Getpid())
	in := make([]byte, 0, 4096)
	for {
		n, err := os.Stdin.Read(in[len(in):cap(in)])
		if err != nil {
			return
		}
		in = in[:len(in)+n]
		end := bytes.IndexByte(in, '\n')
		if end < 0 {
			continue
		}
		if bytes.Equal(in[:end], books) {
			in = in[:copy(in, in[end+1:])]
			printBooks()
			continue
		}
		words := strings.Fields(string(in[:end]))
		in = in[:copy(in, in[end+1:])]
		switch run := commands[words[0]]; {
		case words[0] == "quit":
			return
		case words[0] == "where":
			fmt.Printf("where %d\n", uintptr(unsafe.Pointer(&kept[0][0])))
		case run != nil:
			run(number(words, 1), number(words, 2))
			os.Stdout.WriteString(words[0] + "\n")
		default:
			os.Stdout.WriteString("error unknown command\n")
		}
	}
}

func number(words []string, i int) int {
	if i >= len(words) {
		return 0
	}
	n, err := strconv.Atoi(words[i])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return n
}

var (
	kept    [][]byte
	pointed []*[4]*int
	bound   [][]*int
)

func keep(n, size int) {
	for i := 0; i < n; i++ {
		kept = append(kept, make([]byte, size))
	}
}

func keepClasses(int, int) {
	for size := 1; size <= 40000; size += 1 + size/16 {
		kept = append(kept, make([]byte, size))
		bound = append(bound, make([]*int, size/8+1))
		pointed = append(pointed, new([4]*int))
	}
}

func drop(int, int) { kept, pointed, bound = nil, nil, nil }

func startStacks(n, _ int) {
	var deep sync.WaitGroup
	deep.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			descend(30)
			deep.Done()
			select {}
		}()
	}
	deep.Wait()
}

//go:noinline
func descend(n int) byte {
	var frame [1024]byte
	frame[n] = byte(n)
	if n > 0 {
		frame[0] = descend(n - 1)
	}
	return frame[n/2]
}

var mapped [][]byte

func mapMemory(n, _ int) {
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i := 0; i < n; i += 4096 {
		b[i] = 1
	}
	mapped = append(mapped, b)
}

var (
	stop     int32
	churning sync.WaitGroup
)

func churn(n, _ int) {
	atomic.StoreInt32(&stop, 0)
	churning.Add(n)
	for i := 0; i < n; i++ {
		go func(i int) {
			defer churning.Done()
			var mine [64][]byte
			for k := i; atomic.LoadInt32(&stop) == 0; k++ {
				mine[k%64] = make([]byte, 1+(k*7919)%20000)
				if k%1000 == 0 {
					mine[k%64] = make([]byte, 1<<20)
					time.Sleep(time.Microsecond)
				}
			}
		}(i)
	}
}

func still(int, int) {
	atomic.StoreInt32(&stop, 1)
	churning.Wait()
}
