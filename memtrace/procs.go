//go:build !go1.25

package memtrace

import "runtime"

func restoreProcs(n int) { runtime.GOMAXPROCS(n) }
