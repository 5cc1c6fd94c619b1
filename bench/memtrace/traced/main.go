// Command traced runs the workloads of the memtrace benchmark with package memtrace.
package main

import (
	"context"
	"log"

	"github.com/loupe-go/loupe/bench/memtrace/work"
	"github.com/loupe-go/loupe/memtrace"
)

func main() {
	trace := func(options ...memtrace.Option) func(f func()) {
		return func(f func()) {
			if err := memtrace.Trace(context.Background(), func(memtrace.Context) { f() }, options...); err != nil {
				log.Fatal(err)
			}
		}
	}
	ways := map[string]func(f func()){
		"untraced":    func(f func()) { f() },
		"traced":      trace(),
		"limited":     trace(memtrace.WithLimitBytes(1 << 60)),
		"descendants": trace(memtrace.WithDescendants()),
	}
	around := ways["untraced"]
	others := map[string]func(){"patch": func() {
		if err := memtrace.Supported(); err != nil {
			log.Fatal(err)
		}
	}}
	for name, way := range ways {
		others[name] = func() { around = way }
	}
	work.Serve(func(f func()) { around(f) }, others)
}
