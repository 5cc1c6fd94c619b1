// Package goproc observes live Go processes from the outside. It finds the processes that run Go programs, reads their
// memory, and takes goroutine snapshots while they continue to run.
//
// The central type is [Process]. Information about the executable comes from package gobin. Everything else comes from the
// memory of the process and from /proc. A Process is verified before it is used: the struct layouts are checked against
// the live data structures, and rejected if they do not match.
package goproc
