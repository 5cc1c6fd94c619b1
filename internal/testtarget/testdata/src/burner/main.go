// Command burner uses processor time in known places and records its own CPU profile of it.
//
// Each argument is the name of a load, which runs all the time, until the program ends. Further commands:
//
//	profile FILE  starts a CPU profile, as runtime/pprof writes it
//	stop          completes it, and answers `stopped`
//	threads N     starts N threads that sleep, and answers `threads`
//	count         answers with the number of units of work that the loads have
//	              completed
//	exec          executes the program again, without loads
package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"syscall"
)

// loads are the loads by their names. One with C code is added by cgo.go.
var loads = map[string]func(){
	"shares": shares, "labels": labels, "deep": deep, "kernel": kernel, "gc": garbage, "clock": clock, "spawn": spawn,
}

var recording *os.File

func main() {
	for _, name := range os.Args[1:] {
		load := loads[name]
		if load == nil {
			fmt.Fprintln(os.Stderr, "no load", name)
			os.Exit(2)
		}
		go load()
	}
	serve(false, map[string]command{"profile": start, "stop": stop, "threads": threads, "count": count, "exec": again})
}

func start(args []string) string {
	var err error
	if recording, err = os.Create(args[0]); err == nil {
		err = pprof.StartCPUProfile(recording)
	}
	if err != nil {
		return "error " + err.Error()
	}
	return "started"
}

func stop([]string) string {
	pprof.StopCPUProfile()
	if err := recording.Close(); err != nil {
		return "error " + err.Error()
	}
	return "stopped"
}

func threads(args []string) string {
	n, _ := strconv.Atoi(args[0])
	started := make(chan bool)
	for i := 0; i < n; i++ {
		go func() {
			runtime.LockOSThread()
			started <- true
			select {}
		}()
	}
	for i := 0; i < n; i++ {
		<-started
	}
	return "threads"
}

func count([]string) string { return fmt.Sprint(atomic.LoadUint64(&units)) }

func again([]string) string {
	exe, err := os.Executable()
	if err == nil {
		err = syscall.Exec(exe, []string{exe}, os.Environ())
	}
	return "error " + err.Error()
}
