// Package parcel is a library as programs import it, version 2: its structs have other layouts.
package parcel

import "unsafe"

// A Parcel is sent to an address.
type Parcel struct {
	header
	Tracking [3]uint32
	To       *Address
	Next     *Parcel
	Weight   int
}

type header struct {
	flags uint32
	Label string
}

type Address struct {
	Country uint16
	City    *City
	Street  string
}

type City struct {
	Zip  int
	Name string
}

// New returns a parcel.
func New(label, street, city string, weight int) *Parcel {
	return &Parcel{header: header{Label: label}, Weight: weight, To: &Address{Street: street, City: &City{Name: city}}}
}

// A Depot sends parcels.
type Depot struct{ sent, weight int }

// Send sends a parcel.
//
//go:noinline
func (d *Depot) Send(p *Parcel) bool {
	d.sent++
	for _, by := range [...]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} {
		grow(d, by)
	}
	return d.sent > 0
}

// SendRaw sends a parcel with a label that may be no valid string, and clears it afterwards.
//
//go:noinline
func (d *Depot) SendRaw(p *Parcel, label *string, header [2]uintptr) {
	raw := (*[2]uintptr)(unsafe.Pointer(label))
	*raw = header
	d.Send(p)
	*raw = [2]uintptr{}
}

// Weigh weighs a parcel of a kind.
//
//go:noinline
func (d *Depot) Weigh(kind, weight uint64) {
	d.weight += int(weight)
	for _, by := range [...]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12} {
		grow(d, by)
	}
	grow(d, int(kind))
}

// grow makes its callers functions that check their stack. They are as large as most functions of libraries: in small ones
// the branch of the check is too short for a jump.
//
//go:noinline
func grow(d *Depot, by int) { d.sent += by & 1 }
