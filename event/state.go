package event

// State is what a goroutine is doing, in the words of a Go traceback.
type State string

// The states of a live goroutine, from the status constants of runtime/runtime2.go.
const (
	StateRunnable  State = "runnable"  // ready to run, waits for a P
	StateRunning   State = "running"   // executes Go code on an M
	StateSyscall   State = "syscall"   // executes a system call or C code on an M
	StateWaiting   State = "waiting"   // blocked; the reason says on what
	StateCopystack State = "copystack" // the runtime is moving its stack
	StatePreempted State = "preempted" // stopped itself for a suspend request
	StateLeaked    State = "leaked"    // blocked for ever by the finding of the runtime's leak detector (Go 1.26 and later)
)
