//go:build go1.25

package memtrace

import (
	"os"
	"runtime"
)

// restoreProcs sets GOMAXPROCS to what it was. If that is the default, the runtime goes on to adjust it.
func restoreProcs(n int) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS()
	}
	if runtime.GOMAXPROCS(0) != n {
		runtime.GOMAXPROCS(n)
	}
}
