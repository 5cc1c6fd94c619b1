package glti

import _ "unsafe" // for linkname

// nanotime is the clock of the runtime. Runtimes permit this linkname (runtime/time_nofake.go).
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64
