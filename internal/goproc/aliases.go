package goproc

import "github.com/loupe-go/loupe/event"

// The types of a snapshot are in package event. These names are for callers that do not use them yet.
type (
	Snapshot  = event.Snapshot
	Goroutine = event.Goroutine
	Frame     = event.StackFrame
)

// Info describes a process.
type Info = event.ProcessInfo
