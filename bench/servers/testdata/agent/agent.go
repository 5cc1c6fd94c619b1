// Package agent registers a callback for every event of the runtime, and a raw callback for every event that can have one. It prints the
// numbers of their calls several times a second, because some programs end without an end for agents: etcd kills itself by a signal.
package agent

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/glti"
)

var (
	calls, raw, lost atomic.Uint64
	ended            atomic.Bool
	trace            *glti.TracingEnv
)

// InitGltiAgent registers the callbacks.
func InitGltiAgent(env *glti.GLTIEnv) {
	trace = &env.Trace
	glti.SetReportHandler(func(r glti.Report) {
		lost.Add(r.Lost)
		if r.Lost == 0 {
			fmt.Fprintln(os.Stderr, "agent:", r)
		}
	})
	for ev := glti.EvProcStart; ev <= glti.EvUserLog; ev++ {
		if _, err := trace.Handle(ev, func(glti.Record) { calls.Add(1) }); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
		}
	}
	for _, ev := range []glti.Event{
		glti.EvGoStart, glti.EvGoStop, glti.EvGoPreempt, glti.EvGoBlock, glti.EvGoBlockSend, glti.EvGoBlockRecv, glti.EvGoBlockSelect,
		glti.EvGoBlockSync, glti.EvGoBlockCond, glti.EvGoBlockNet, glti.EvGoSleep, glti.EvGoSysCall, glti.EvGoSysExit,
	} {
		if _, err := trace.HandleRaw(ev, func(*glti.RawRecord) { raw.Add(1) }); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
		}
	}
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			if !ended.Load() { // with the race detector, goroutines still run for a second
				printCounts("running")
			}
		}
	}()
}

// ShutdownGltiAgent prints what was counted.
func ShutdownGltiAgent(code int) {
	ended.Store(true)
	trace.Flush()
	printCounts(fmt.Sprintf("exit code %d", code))
}

func printCounts(state string) {
	fmt.Fprintf(os.Stderr, "agent: %s, callbacks %d, raw callbacks %d, lost %d\n", state, calls.Load(), raw.Load(), lost.Load())
}
