package event

// A State is the state of a goroutine, spelled as in a Go traceback.
type State string

// The states of a live goroutine. They correspond to the status constants in runtime/runtime2.go.
const (
	StateRunnable  State = "runnable"  // ready to run and waiting for a P
	StateRunning   State = "running"   // executing Go code on an M
	StateSyscall   State = "syscall"   // executing a system call or C code on an M
	StateWaiting   State = "waiting"   // blocked, for the goroutine's wait reason
	StateCopystack State = "copystack" // the runtime is moving its stack
	StatePreempted State = "preempted" // stopped itself because of a request to suspend it
	StateLeaked    State = "leaked"    // reported by the runtime's leak detector as blocked forever (Go 1.26 and later)
)
