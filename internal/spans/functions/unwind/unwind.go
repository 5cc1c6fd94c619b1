// Package unwind is a set of probes for calls that end without a return: because a panic or runtime.Goexit unwinds the stack.
//
// The central function is [New].
package unwind

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

//go:generate go run ../../../probe/csrc/flatten -ebpf -headers ../../../probe/csrc -source probes.c -list probes.c -package unwind -out code.go -code code

// Kinds of notes, as in probes.c.
const (
	notePanics = iota
	noteRecovered
	noteExits
)

// Name is the name of the set.
const Name = "panics"

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// A Receiver receives what happens to the stacks of goroutines. Times are Unix nanoseconds.
type Receiver interface {
	// Panics notes that a goroutine panics with a value of a type, given by its address; 0 is a nil value.
	Panics(g, typ uint64)
	// Recovered notes that a goroutine has recovered from a panic. The frames whose distance from the beginning of its stack is at
	// least depth bytes are gone.
	Recovered(g, depth uint64, at int64)
	// Exits notes that runtime.Goexit has called the deferred functions of a goroutine. All of its frames are gone.
	Exits(g uint64, at int64)
}

// New returns a set that reports to r.
func New(r Receiver) *probe.Set {
	const (
		panics = "the ends of calls by a panic are reported late"
		exits  = "the ends of calls by runtime.Goexit are not reported"
	)
	return &probe.Set{
		Name: Name, Code: &code,
		Decode: func(n *probe.Note) {
			switch n.What {
			case notePanics:
				r.Panics(n.G, n.Word())
			case noteRecovered:
				r.Recovered(n.G, n.Word(), n.Time)
			case noteExits:
				r.Exits(n.G, n.Time)
			}
		},
		Probes: []probe.Declaration{
			{Program: "panics", Funcs: []string{"runtime.gopanic"}, Words: 2, NeedsG: true, Without: "the types of values of panics are not reported"},
			{Program: "recovered", Funcs: []string{"runtime.recovery"}, Place: probe.AtCall, Callee: "runtime.gogo", NeedsG: true, Without: panics},
			{Program: "exits", Funcs: []string{"runtime.Goexit"}, Place: probe.AtCall, Callee: "runtime.goexit1", NeedsG: true, Quiet: true, Without: exits},
		},
	}
}
