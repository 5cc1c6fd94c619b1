package goproc

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An Identity identifies a program in a process. Another process with the same PID has another Identity, and so has the same
// process after it has executed another program (execve(2)). Identities are comparable.
type Identity struct {
	PID     int
	started uint64 // clock ticks since boot
	program string // see procStat
}

// StartTicks returns when the process started, in clock ticks since boot (starttime in proc(5)).
func (id Identity) StartTicks() uint64 { return id.started }

// Age returns how long ago the process started.
func (id Identity) Age() time.Duration { return procStat{startTicks: id.started}.age() }

// SameProcess reports whether two programs were executed by the same process.
func (id Identity) SameProcess(other Identity) bool {
	return id.PID == other.PID && id.started == other.started
}

// NoProgram reports whether the process has no memory of its own: a kernel thread, or a process that ends or executes a program just now.
func (id Identity) NoProgram() bool { return id.program == "" }

// Forked reports whether the process runs the program of its parent: it was forked and has not executed a program, as far as that can be
// told. The parents of most processes have executed another program.
func (id Identity) Forked() bool {
	st, err := readStat(id.PID)
	if err != nil {
		return false
	}
	parent, err := readStat(st.ppid)
	return err == nil && id.program != "" && parent.program == id.program
}

// Identify returns the Identity of a process. The error wraps [ErrNoProcess] or [ErrExited] if there is no such process.
func Identify(pid int) (Identity, error) {
	st, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	if st.ended() {
		return Identity{}, fmt.Errorf("process %d: %w", pid, ErrExited)
	}
	return Identity{PID: pid, started: st.startTicks, program: st.program}, nil
}

// readStat reads /proc/PID/stat with three system calls: the processes of a machine are read again and again.
func readStat(pid int) (procStat, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return procStat{}, procError(pid, err)
	}
	defer unix.Close(fd)
	buf := statBuffers.Get().(*[statSize]byte)
	defer statBuffers.Put(buf)
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return procStat{}, procError(pid, err)
	}
	return parseStat(buf[:n])
}

// statSize is more than the length of a line: 52 numbers and a name of 64 bytes.
const statSize = 2048

var statBuffers = sync.Pool{New: func() any { return new([statSize]byte) }}
