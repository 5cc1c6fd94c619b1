// Command bare runs the workloads of the memtrace benchmark without package memtrace.
package main

import (
	"runtime"

	"github.com/loupe-go/loupe/bench/memtrace/work"
)

func main() {
	work.Serve(func(f func()) { f() }, map[string]func(){
		"profile all":     func() { runtime.MemProfileRate = 1 },
		"profile default": func() { runtime.MemProfileRate = 512 << 10 },
	})
}
