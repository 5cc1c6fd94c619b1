// Command goagent is a Go agent, a plugin. The environment variable AGENT names what it does besides.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"agents/dep"

	"github.com/loupe-go/loupe/glti"
)

func init() {
	if os.Getenv("AGENT") == "panics at init" {
		panic("init\nof the agent")
	}
}

// InitGltiAgent does what ordinary code does.
func InitGltiAgent(env *glti.GLTIEnv) {
	var wg sync.WaitGroup
	done := make(chan string, 1)
	wg.Add(1)
	go func() {
		defer wg.Done()
		time.Sleep(time.Millisecond)
		done <- strings.ToUpper("ok")
	}()
	wg.Wait()
	fmt.Fprintln(os.Stderr, "agent init", env.GltiVersion, env.Name == os.Getenv("GO_GLTI_AGENT"), <-done, dep.Initialized)
	if os.Getenv("AGENT") == "panics" {
		panic(errors.New("agent"))
	}
}

func ShutdownGltiAgent(code int) {
	fmt.Fprintln(os.Stderr, "agent shutdown", code)
	switch os.Getenv("AGENT") {
	case "panics at shutdown":
		panic("shutdown")
	case "hangs":
		select {}
	}
}

func main() {}
