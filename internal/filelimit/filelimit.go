// Package filelimit exits with a one-line error if the limit for open files is so low that the Go runtime itself could
// not work and would print a traceback.
//
// The check runs when the package is initialized. The package imports only syscall, so that it is initialized before
// packages that open files during initialization, such as github.com/cilium/ebpf/rlimit.
package filelimit

import "syscall"

// Minimum is how many files Loupe has to be allowed to open.
const Minimum = 64

// Advice is what to do about a limit that is too low.
const Advice = "raise the limit of open files: ulimit -n 4096"

func init() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Max < Minimum { // the runtime raises Cur to Max
		syscall.Write(2, []byte("loupe: cannot run: fewer than 64 files may be open; "+Advice+"\n"))
		syscall.Exit(1)
	}
}
