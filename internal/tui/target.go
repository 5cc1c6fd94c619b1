package tui

import (
	"time"

	"github.com/loupe-go/loupe/live"
)

// Source is what the view takes pictures from, such as a *live.Observation. It is used by one goroutine at a time.
type Source interface {
	// Take takes a picture.
	Take(q live.Query) *live.Picture

	// Window sets the shortest time that the differences of pictures cover.
	Window(d time.Duration)
}

// Target is the process that is looked at, as far as it is known.
type Target struct {
	Name      string // of its executable
	PID       int
	GoVersion string
	Module    string // path of its main module, which tells its own functions from others

	System   bool // the runtime's own goroutines are observed
	Syscalls bool // system calls are observed
	Allocs   bool // allocations are counted
}
