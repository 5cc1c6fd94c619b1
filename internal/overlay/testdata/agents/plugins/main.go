// Command plugins loads Go agents, if it is built with -agents=plugin. It ends in the way that its argument names.
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"agents/dep"
	_ "agents/own"
)

func main() {
	fmt.Fprintln(os.Stderr, "main", dep.Initialized, http.StatusText(200))
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "exit":
		os.Exit(3)
	case "panic":
		defer fmt.Fprintln(os.Stderr, "deferred")
		panic("panic")
	case "elsewhere":
		go func() { panic("elsewhere") }()
		select {}
	case "nil":
		var p *int
		*p = 1
	case "fatal":
		var mu sync.Mutex
		mu.Unlock()
	case "SIGQUIT":
		syscall.Kill(os.Getpid(), syscall.SIGQUIT)
		time.Sleep(time.Hour)
	case "signal":
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(time.Hour)
	}
}
