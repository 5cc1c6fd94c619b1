package probe

import (
	"time"

	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// HitCost is the processor time that a probe takes from the process.
type HitCost struct {
	Hit   time.Duration // a hit that reports no event
	Event time.Duration // what an event without a stack takes in addition
}

// TrialGoroutine is the goroutine with which a trial plan's program is hit.
type TrialGoroutine struct{ ID uint64 }

// TrialPlan returns a plan for one place in this process: a program that reports the end of a goroutine, which has a
// *TrialGoroutine as its first argument. It is for engines that measure what a hit costs.
func TrialPlan(pid int, image string, offset uint64, bufferBytes int) *Plan {
	set := PlannedSet{Set: runtimeSet(), Sites: make([]csrc.Site, len(csrc.Runtime.Probes))}
	plan := &Plan{PID: pid, ImagePath: image, Sets: []PlannedSet{set}, Want: Want{BufferBytes: bufferBytes}}
	plan.Config.RegAbi, plan.Config.SkipListed = 1, 1 // g_goid is 0
	site := Site{Func: "trial", Offset: offset}
	site.At.Emulated = true
	plan.Probes = []Probe{{ID: csrc.ProbesLoupeProbePROBE_goexit0, Program: "goexit0", Sites: []Site{site}, declared: &Declaration{}}}
	return plan
}
