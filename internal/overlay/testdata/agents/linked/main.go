// Command linked contains an agent. It ends in the way that its argument names.
package main

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/glti"
)

func init() {
	glti.Link(func(env *glti.GLTIEnv) { fmt.Fprintln(os.Stderr, "agent init", env.GltiVersion) }, func(code int) {
		fmt.Fprintln(os.Stderr, "agent shutdown", code)
	})
}

func main() {
	fmt.Fprintln(os.Stderr, "main OK")
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "exit":
		os.Exit(3)
	case "panic":
		panic("panic")
	case "exit twice":
		go os.Exit(4)
		os.Exit(4)
	case "signal":
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
}
