// Package tally is a set of probes for tests. It counts by kind the parcels that the test target depot weighs with its
// library, without an event for each.
//
// The central function is [New].
package tally

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/testsets/parcel"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package tally -out code.go -code code

// Kinds is the name of the table: its keys are kinds, its values their weights.
const Kinds = "kinds"

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns a set that counts at most a number of kinds.
func New(kinds int) *probe.Set {
	return &probe.Set{
		Name: "tally", Code: &code, Tables: []probe.Table{{Name: Kinds, Values: 1, Keys: kinds}},
		Probes: []probe.Declaration{{
			Program: "weigh", Funcs: []string{parcel.Module + ".(*Depot).Weigh"}, Words: 3, Fence: probe.Unfenced,
			Without: "weighed parcels are not counted",
		}},
	}
}
