package stream

import (
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/sched"
)

// ProfileType is a kind of profile that is made from events.
type ProfileType struct {
	Name   string
	Values []pprof.ValueType // the last one is what viewers show first
	Kinds  event.Kinds       // what has to be observed for it, and no more
	// Waits are the classes of the waits that are counted unless reasons are given; nil for a type that is not about waits.
	Waits []gostate.Wait

	samples func(m *sched.Machine, yield func(sample))
}

// The waits for other goroutines. Waits for the outside (IO wait, sleep) and those of the runtime are not among them.
var (
	lockWaits  = []gostate.Wait{gostate.WaitLock, gostate.WaitSemaphore}
	blockWaits = append([]gostate.Wait{gostate.WaitSync, gostate.WaitSend, gostate.WaitReceive, gostate.WaitSelect}, lockWaits...)
)

// waitKinds are the kinds that report waits of goroutines, including goroutines that wait at the start and that end
// while they wait.
var waitKinds = event.KindsOf(event.GoStatus, event.GoBlock, event.GoUnblock, event.GoDestroy)

// waitCount is the sample type for waits in general. Contentions are only waits for something that another goroutine
// holds, not waits for a value, the network or a clock.
var waitCount = pprof.ValueType{Type: "waits", Unit: "count"}

var profileTypes = []ProfileType{
	{Name: "create", Values: []pprof.ValueType{{Type: "goroutines", Unit: "count"}},
		Kinds: event.KindsOf(event.GoCreate, event.GoDestroy), samples: creations},
	{Name: "block", Values: []pprof.ValueType{waitCount, {Type: "delay", Unit: "nanoseconds"}},
		Kinds: waitKinds, Waits: blockWaits, samples: waits},
	{Name: "mutex", Values: []pprof.ValueType{{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"}},
		Kinds: waitKinds, Waits: lockWaits, samples: unlocks},
	{Name: "sched", Values: []pprof.ValueType{{Type: "starts", Unit: "count"}, {Type: "latency", Unit: "nanoseconds"}},
		Kinds: event.KindsGoroutine, samples: latencies},
}

// ProfileTypes returns the types of profile that events give.
func ProfileTypes() []ProfileType { return slices.Clone(profileTypes) }

// ProfileTypeOf returns the type of a name; false when there is none.
func ProfileTypeOf(name string) (ProfileType, bool) {
	i := slices.IndexFunc(profileTypes, func(t ProfileType) bool { return t.Name == name })
	if i < 0 {
		return ProfileType{}, false
	}
	return profileTypes[i], true
}

// sample is the key by which events are counted.
type sample struct {
	stack  *event.Stack
	origin *event.Origin // its first function comes before the stack, as the leaf
	other  bool          // all stacks beyond the limit
	reason string

	count     uint64
	delay     time.Duration
	uncertain uint64
}

// creations counts new goroutines at the place of their creation.
func creations(m *sched.Machine, yield func(sample)) {
	for _, c := range m.Creations() {
		yield(sample{stack: c.Stack, origin: c.Origin, other: c.Other, count: c.Created})
	}
}

// waits counts waits at the place where the goroutine waited.
func waits(m *sched.Machine, yield func(sample)) {
	for _, p := range m.Places(sched.Waits) {
		yield(sampleOf(&p))
	}
}

// unlocks counts waits for a lock at the place where the lock was released.
func unlocks(m *sched.Machine, yield func(sample)) {
	for _, p := range m.Places(sched.Wakes) {
		if gostate.WaitOf(p.Reason) != gostate.WaitSemaphore || gostate.ForLock(p.Reason, p.Stack) {
			yield(sampleOf(&p))
		}
	}
}

func sampleOf(p *sched.Place) sample {
	return sample{stack: p.Stack, other: p.Other, reason: p.Reason, count: p.Count, delay: p.Time.Duration(), uncertain: p.UncertainCount}
}

// LockWaits returns where goroutines wait for locks, the places with the most time first.
func LockWaits(m *sched.Machine) []sched.Place {
	return slices.DeleteFunc(m.Contention(0), func(p sched.Place) bool {
		return !gostate.ForLock(p.Reason, p.Stack)
	})
}

// latencies counts the times until goroutines run, at the place where they resume, or where they were created.
func latencies(m *sched.Machine, yield func(sample)) {
	for role := sched.Points; role <= sched.Syscalls; role++ {
		for _, p := range m.Places(role) {
			yield(sample{stack: p.Stack, other: p.Other, count: p.Delay.Count, delay: p.Delay.Sum.Duration()})
		}
	}
	for _, c := range m.Creations() {
		yield(sample{stack: c.Stack, origin: c.Origin, other: c.Other, count: c.FirstStart.Count, delay: c.FirstStart.Sum.Duration()})
	}
}
