package probe

// program is the source of the probe program. It is old Go, so that every release compiles it, and uses the parts of the
// standard library whose structs and strings are wanted: the linker drops what nothing refers to.
const program = `package main

import (
	"context"
	"os"
	"runtime/pprof"
	"runtime/trace"
	"time"
)

type shouter interface{ shout() string }

type dog struct{ name string }

func (d dog) shout() string { return d.name }

func main() {
	if err := trace.Start(os.Stdout); err == nil {
		defer trace.Stop()
	}
	pprof.Do(context.Background(), pprof.Labels("probe", "1"), func(context.Context) {
		done := make(chan map[string]shouter)
		go func() {
			m := map[string]shouter{}
			for _, name := range os.Args {
				m[name] = dog{name}
			}
			done <- m
		}()
		select {
		case m := <-done:
			for _, s := range m {
				println(s.shout())
			}
		case <-time.After(time.Second):
		}
	})
	pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
}
`
