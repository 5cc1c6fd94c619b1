package goproc

import "fmt"

// An Identity identifies a program in a process. Another process with the same PID has another Identity, and so has the same
// process after it has executed another program (execve(2)). Identities are comparable.
type Identity struct {
	PID     int
	started uint64 // clock ticks since boot
	program string // see procStat
}

// Identify returns the Identity of a process. The error wraps [ErrNoProcess] or [ErrExited] if there is no such process.
func Identify(pid int) (Identity, error) {
	dir, err := openProc(pid)
	if err != nil {
		return Identity{}, err
	}
	defer dir.close()
	st, err := dir.stat()
	if err != nil {
		return Identity{}, err
	}
	if st.ended() {
		return Identity{}, fmt.Errorf("process %d: %w", pid, ErrExited)
	}
	return Identity{PID: pid, started: st.startTicks, program: st.program}, nil
}
