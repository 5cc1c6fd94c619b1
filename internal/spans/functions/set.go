package functions

import (
	"fmt"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/functions/unwind"
	"github.com/loupe-go/loupe/internal/spans/join"
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// A Process is what the sets require of the process that they observe.
type Process interface {
	// TypeName returns the name of the type at an address.
	TypeName(addr uint64) (string, error)
	// Constant reads memory that the program cannot write.
	Constant(addr uint64, size int) ([]byte, error)
}

// Sets returns the sets that report the calls of functions to a tracker: one for each function, and one for what panics do.
func Sets(list []*Function, t *join.Tracker, p Process) []*probe.Set {
	d := newDecoder(t, p)
	all := []*probe.Set{unwind.New(d)}
	for _, f := range list {
		all = append(all, f.set(d))
	}
	return all
}

// set returns the set of probes of a function.
func (f *Function) set(d *decoder) *probe.Set {
	without := fmt.Sprintf("calls of %s are not reported", f.name)
	const returned = "returned"
	return &probe.Set{
		Name: f.name, Code: &code, Selected: true, Decode: func(n *probe.Note) { d.decode(f, n) },
		Settings: append(settings("params", f.params), settings("results", f.results)...),
		Probes: []probe.Declaration{
			{Program: returned, Addrs: []uint64{f.entry}, Place: probe.AtReturn, NeedsG: true, Reads: true, Without: without},
			{Program: "called", Addrs: []uint64{f.entry}, Words: f.words, NeedsG: true, Reads: true, Requires: returned, Without: without},
		},
	}
}

// settings returns how the values of a list are read.
func settings(name string, list []value) []probe.Setting {
	var all []probe.Setting
	for i := range list {
		v := &list[i]
		if v.form == formNone {
			continue
		}
		number := name
		if n := len(all); n > 0 {
			number = fmt.Sprint(name, n)
		}
		all = append(all, probe.Setting{Name: number, Value: func(probe.Program) (uint64, error) { return v.setting(), nil }})
	}
	return all
}
