package gostate

import "github.com/loupe-go/loupe/event"

// State is what a goroutine is doing. It divides the time of a goroutine, so there are fewer states than in package event.
type State uint8

// The states.
const (
	Unknown State = iota // or the state is not reported, see Rules
	Runnable
	Running
	Syscall
	Waiting

	NumStates = iota
)

var names = [NumStates]event.State{
	Runnable: event.StateRunnable, Running: event.StateRunning, Syscall: event.StateSyscall, Waiting: event.StateWaiting,
}

// Name returns the name of the state in package event. It is empty for Unknown.
func (s State) Name() event.State { return names[s] }

// Of returns the state for a state of a snapshot. The runtime moves only stacks of running goroutines. A goroutine that
// stopped itself for a suspend request, or that leaked, waits.
func Of(s event.State) State {
	switch s {
	case event.StateRunnable:
		return Runnable
	case event.StateRunning, event.StateCopystack:
		return Running
	case event.StateSyscall:
		return Syscall
	case event.StateWaiting, event.StatePreempted, event.StateLeaked:
		return Waiting
	}
	return Unknown
}
