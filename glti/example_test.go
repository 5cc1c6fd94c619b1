package glti_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// An agent that is linked into the program counts goroutines.
func Example() {
	var created atomic.Int64
	glti.RegisterAgent(glti.Agent{
		Name: "counter",
		Init: func(env *glti.GLTIEnv) {
			err := env.Trace.RegisterTraceEvGoCreate(func(ts int64, gp interface{}) { created.Add(1) })
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		},
		Shutdown: func(exitCode int) {
			fmt.Fprintln(os.Stderr, "goroutines:", created.Load())
		},
	})

	// In the main function of a program that `loupe go build` did not build:
	glti.InitGLTI()
	defer glti.Shutdown(0)
}

func ExampleTracingEnv_Handle() {
	env := glti.NewEnv("gc")
	defer env.Close()
	r, err := env.Trace.Handle(glti.EvGCDone, func(r glti.Record) {
		fmt.Fprintln(os.Stderr, "collected at", glti.Time(r.Time), "late:", r.Late)
	})
	if errors.Is(err, glti.ErrUnavailable) {
		return // Capabilities says why
	}
	defer r.Unregister()
	runtime.GC()
	env.Trace.Flush()
}

func ExampleProfilerEnv() {
	env := glti.NewEnv("profiler")
	defer env.Close()
	err := env.Profiler.RegisterPprofGoroutineProfileHandler(1, func(stacks []glti.StackRecord) {
		for i := range stacks {
			frames := runtime.CallersFrames(stacks[i].Stack())
			for {
				frame, more := frames.Next()
				if frame.Function == "github.com/loupe-go/loupe/glti_test.ExampleProfilerEnv" {
					fmt.Println("found this function")
				}
				if !more {
					break
				}
			}
		}
	})
	if err != nil {
		fmt.Println(err)
	}
	env.Profiler.SetInterval(time.Minute)
	env.Profiler.Snapshot()
	// Output: found this function
}
