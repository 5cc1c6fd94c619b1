// Package parcel is a set of probes for tests. It reports the parcels that the test target depot sends with its
// library, which exists in two versions with different structs.
//
// The central function is [New].
package parcel

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package parcel -out code.go -code code

// Module is the path of the library.
const Module = "example.com/parcel"

// Sent is what one call of Send sends.
type Sent struct {
	G     uint64
	Chain []Parcel
	Marks probe.Marks
	Stack *event.Stack
}

// Parcel is one parcel of a chain.
type Parcel struct {
	Weight              int
	Label, Street, City string
	Length              uint64 // of the label, as the target has it
	Marks               probe.Marks
}

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns a set that calls report with what is sent.
func New(report func(Sent)) *probe.Set {
	return &probe.Set{
		Name: "parcel", Code: &code,
		Probes: []probe.Declaration{{
			Program: "send", Funcs: []string{Module + ".(*Depot).Send"}, Words: 2, NeedsG: true, Reads: true, Fence: probe.Unfenced,
			Modules:  []probe.Module{{Path: Module, Since: "v1.0.0"}},
			Settings: code.Settings,
			Without:  "parcels are not reported",
		}},
		Settings: settings(),
		Decode:   func(n *probe.Note) { report(decode(n)) },
	}
}

func decode(n *probe.Note) Sent {
	s := Sent{G: n.G, Marks: n.Marks, Stack: n.Stack}
	for n.More() {
		p := Parcel{Weight: int(n.Word())}
		label, street, city := n.Text(), n.Text(), n.Text()
		p.Label, p.Length, p.Marks = string(label.Bytes), label.Length, label.Marks
		p.Street, p.City = string(street.Bytes), string(city.Bytes)
		s.Chain = append(s.Chain, p)
	}
	return s
}

// Versions are the versions of the library, and the directories of the test target that contain them.
var Versions = map[string]string{"v1.2.0": "./parcel1", "v1.5.1": "./parcel2"}

// settings returns the offsets of the fields, those for targets without DWARF by the version of the library.
func settings() []probe.Setting {
	field := func(name, path string, one, two uint64) probe.Setting {
		return probe.Setting{Name: name, Fields: []string{Module + "." + path}, Offsets: []probe.Offset{
			{Module: probe.Module{Path: Module, Until: "v1.5.0"}, Offset: one},
			{Module: probe.Module{Path: Module, Since: "v1.5.0", Until: "v2.0.0"}, Offset: two},
		}}
	}
	label := field("label", "Parcel.Label", 16, 8)
	label.Fields = append(label.Fields, Module+".Parcel.header.Label") // of version 1.5
	return []probe.Setting{
		field("weight", "Parcel.Weight", 0, 56), label, field("next", "Parcel.Next", 32, 48), field("to", "Parcel.To", 8, 40),
		field("street", "Address.Street", 0, 16), field("city", "Address.City", 16, 8), field("name", "City.Name", 0, 8),
	}
}
