// Package footprint keeps small what a command takes from the machine that it shares with the program it looks at.
package footprint

import (
	"runtime"
	"runtime/debug"
)

// gcPercent makes collections rare: the commands are short, and a collection takes time from the program looked at.
const gcPercent = 400

// Limit sets up this process; a command calls it first.
func Limit() {
	// Half of the machine, but one P reads events while another writes what comes of them.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()/2))
	debug.SetGCPercent(gcPercent)
}
