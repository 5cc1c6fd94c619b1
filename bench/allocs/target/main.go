// Command target allocates for the allocs benchmark.
//
// It reads commands on standard input, and answers each with a line:
//
//	small N     allocates N objects of 64 bytes without pointers, ten calls deep; answers the nanoseconds of processor time
//	tree N      allocates binary trees with N nodes in all, and drops them; answers the same
//	rate N      sets runtime.MemProfileRate, and frees what the profile has recorded of dead objects; answers N
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	calls = 10 // frames below each allocation of small
	depth = 12 // of a tree
)

// The newest objects, so that they are allocated on the heap. Nothing reads them.
var (
	kept []byte //lint:ignore U1000 see above
	root *node  //lint:ignore U1000 see above
)

type node struct{ left, right *node }

func main() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var command string
		var n int
		if _, err := fmt.Sscan(in.Text(), &command, &n); err != nil {
			log.Fatalf("%q: %v", in.Text(), err)
		}
		switch command {
		case "small":
			fmt.Println(used(func() { small(calls, n) }))
		case "tree":
			fmt.Println(used(func() {
				for made := 0; made < n; made += 1<<depth - 1 {
					root = grow(depth)
				}
			}))
		case "rate":
			runtime.MemProfileRate = n
			runtime.GC() // marks
			runtime.GC() // has swept what the first one marked
			fmt.Println(n)
		default:
			log.Fatalf("unknown command %q", command)
		}
	}
}

// used returns the processor time that f takes, with that of the garbage collector, in nanoseconds.
func used(f func()) int64 {
	before := cpu()
	f()
	return (cpu() - before).Nanoseconds()
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:noinline
func small(deeper, n int) {
	if deeper > 1 {
		small(deeper-1, n)
		return
	}
	for range n {
		kept = make([]byte, 64)
	}
}

//go:noinline
func grow(deeper int) *node {
	n := &node{}
	if deeper > 1 {
		n.left, n.right = grow(deeper-1), grow(deeper-1)
	}
	return n
}
