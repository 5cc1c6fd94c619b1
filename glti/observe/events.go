package observe

import (
	"github.com/loupe-go/loupe/glti"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

// events are the events of the protocol, by those of the runtime.
var events = [64]wire.Event{
	glti.EvGoCreate:          wire.GoCreate,
	glti.EvGoStart:           wire.GoStart,
	glti.EvGoPark:            wire.GoPark,
	glti.EvGoYield:           wire.GoYield,
	glti.EvGoPreempt:         wire.GoPreempt,
	glti.EvGoUnblock:         wire.GoUnblock,
	glti.EvGoEnd:             wire.GoEnd,
	glti.EvGoSysCall:         wire.SyscallBegin,
	glti.EvGoSysExit:         wire.SyscallEnd,
	glti.EvGCStart:           wire.GCBegin,
	glti.EvGCDone:            wire.GCEnd,
	glti.EvGCSTWStart:        wire.STWBegin,
	glti.EvGCSTWDone:         wire.STWEnd,
	glti.EvGCMarkAssistStart: wire.AssistBegin,
	glti.EvGCMarkAssistDone:  wire.AssistEnd,
}

// eventOf returns the event of the protocol.
func eventOf(ev glti.Event) wire.Event { return events[ev%64] }

// allEvents has the bits of all events that the agent has.
var allEvents = func() (mask uint64) {
	for _, e := range events {
		if e != 0 {
			mask |= 1 << e
		}
	}
	return mask | 1<<wire.HeapLive
}()

// streamEvents returns the events of the runtime for those of the protocol. The size of the live heap is read when a collection ends.
func streamEvents(mask uint64) []glti.Event {
	if mask>>wire.HeapLive&1 != 0 {
		mask |= 1 << wire.GCEnd
	}
	var list []glti.Event
	for ev, e := range events {
		if e != 0 && mask>>e&1 != 0 {
			list = append(list, glti.Event(ev))
		}
	}
	return list
}

// stateOf are the states of the protocol.
var stateOf = [...]wire.State{
	glti.GoroutineRunnable:  wire.Runnable,
	glti.GoroutineRunning:   wire.Running,
	glti.GoroutineSyscall:   wire.InSyscall,
	glti.GoroutineWaiting:   wire.Waiting,
	glti.GoroutinePreempted: wire.Preempted,
}
