// Package filelimit ends Loupe with one line when it may open so few files that the Go runtime could not even work, which
// it would say with a traceback.
//
// The check runs when the package is initialized. It imports nothing but syscall, so that this is before the packages that
// open files then, such as github.com/cilium/ebpf/rlimit.
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
