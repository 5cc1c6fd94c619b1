// Command linked contains an agent. It ends in the way that its argument names.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
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
	case "nil":
		var p *int
		*p = 1
	case "fatal":
		var mu sync.Mutex
		mu.Unlock()
	case "map":
		for i := 0; i < 4; i++ {
			go write()
		}
		select {}
	case "asleep":
		go func() { select {} }()
		<-make(chan bool)
	case "Goexit":
		runtime.Goexit()
	case "overflow":
		overflow(0)
	case "wedged": // no goroutine runs again, with GODEBUG=asyncpreemptoff=1
		runtime.GOMAXPROCS(1)
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		for {
		}
	case "SIGTERM":
		kill(syscall.SIGTERM)
	case "SIGQUIT":
		kill(syscall.SIGQUIT)
	case "SIGSEGV":
		kill(syscall.SIGSEGV)
	}
}

// kill sends a signal twice, as timeout(1) does.
func kill(s syscall.Signal) {
	syscall.Kill(os.Getpid(), s)
	syscall.Kill(os.Getpid(), s)
	time.Sleep(time.Hour)
}

var written = map[int]int{}

func write() {
	for i := 0; ; i++ {
		written[i%1000] = i
	}
}

func overflow(n int) int {
	var frame [1024]int
	frame[n%1024] = n
	return overflow(n+1) + frame[0]
}
