//go:build go1.18 || !zoocgo
// +build go1.18 !zoocgo

package main

import (
	"runtime"
	"time"
)

// In programs with cgo, the runtimes of before Go 1.18 may collect the M of a thread that has not quite ended yet
// (golang.org/issue/56243), and die of it: "schedule: holding locks".
func init() { kinds = append(kinds, &kind{name: "threads", work: threads}) }

// threads ends a thread: a goroutine that keeps its own until it returns takes it along.
func threads() {
	ended := make(chan bool)
	go func() {
		runtime.LockOSThread()
		time.Sleep(wait / 3)
		ended <- true
	}()
	<-ended
}
