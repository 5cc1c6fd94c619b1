package discover

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/container"
	"github.com/loupe-go/loupe/internal/goproc"
)

// A Process is a process that runs a Go program. What can be unreadable or absent is empty then. Exe, Comm, ServiceName and
// ResourceAttributes are chosen by the process: they can contain any byte except 0.
type Process struct {
	ID goproc.Identity // of the program: also different after an execve(2)

	PID        int
	StartTicks uint64 // when the process started, in clock ticks since boot; PID and StartTicks identify the process
	UID        int    // effective user ID, in the user namespace of the watcher; -1 if it is unknown

	Exe     string // path of the executable in the mount namespace of the process, or its last path if it was removed
	Deleted bool   // the executable was removed or replaced
	BuildID string // of the executable, as the Go linker has written it
	Comm    string // name of the process

	// Container is the container that the process belonged to when it executed the program.
	Container container.Ref

	ServiceName        string // OTEL_SERVICE_NAME in the environment of the program
	ResourceAttributes string // OTEL_RESOURCE_ATTRIBUTES
}

// Limits on what is read of a process.
const (
	maxEnviron  = 256 << 10 // bytes of the environment
	maxVariable = 16 << 10  // bytes of a value; a longer one is omitted
)

// describe reads what is known about a process besides its executable.
func describe(id goproc.Identity) (p Process, clipped bool) {
	p = Process{ID: id, PID: id.PID, StartTicks: id.StartTicks(), UID: userOf(id.PID)}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID)); err == nil {
		p.Exe, p.Deleted = strings.CutSuffix(exe, " (deleted)")
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id.PID)); err == nil {
		p.Comm = strings.TrimSuffix(string(comm), "\n")
	}
	p.Container, _ = container.Of(id.PID)
	return p, environment(&p)
}

// environment reads the variables of a process. clipped is set if they were too long.
func environment(p *Process) (clipped bool) {
	b, err := goproc.Environ(p.PID, maxEnviron)
	if err != nil {
		return false
	}
	name, attributes, clipped := variables(bytes.NewReader(b))
	p.ServiceName, p.ResourceAttributes = name, attributes
	return clipped
}

// variables reads an environment: strings that end with a byte 0.
func variables(r io.Reader) (name, attributes string, clipped bool) {
	limited := &io.LimitedReader{R: r, N: maxEnviron}
	env := bufio.NewReader(limited)
	found := func(to *string, value []byte) {
		if len(value) > maxVariable {
			clipped = true
		} else if *to == "" { // the first of a name counts, as for getenv(3)
			*to = string(value)
		}
	}
	for {
		line, err := env.ReadBytes(0)
		if err == nil {
			line = line[:len(line)-1]
			if v, ok := bytes.CutPrefix(line, []byte("OTEL_SERVICE_NAME=")); ok {
				found(&name, v)
			} else if v, ok := bytes.CutPrefix(line, []byte("OTEL_RESOURCE_ATTRIBUTES=")); ok {
				found(&attributes, v)
			}
			continue
		}
		return name, attributes, clipped || limited.N == 0 && errors.Is(err, io.EOF)
	}
}

// userOf returns the effective user ID of a process, or -1.
func userOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if f := strings.Fields(ids); len(f) >= 2 {
				if uid, err := strconv.Atoi(f[1]); err == nil {
					return uid
				}
			}
			break
		}
	}
	return -1
}
