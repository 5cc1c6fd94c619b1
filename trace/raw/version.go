package raw

import "strconv"

// A Version is a format of execution traces. It is named by the minor number of the Go release that introduced it.
type Version uint8

// The formats, with the releases whose programs write them.
const (
	Go111 Version = 11 // Go 1.11 to 1.18
	Go119 Version = 19 // Go 1.19 and 1.20
	Go121 Version = 21 // Go 1.21
	Go122 Version = 22 // Go 1.22
	Go123 Version = 23 // Go 1.23 and 1.24
	Go125 Version = 25 // Go 1.25
	Go126 Version = 26 // Go 1.26 and 1.27
)

// ReadBy returns the newest format that the tools of a Go release read, by its minor version: 24 for Go 1.24. ok is false
// for releases before Go 1.11, which have formats of their own.
func ReadBy(minor int) (v Version, ok bool) {
	for known := range formats {
		if known <= minor && formats[known] != nil {
			v = Version(known)
		}
	}
	return v, v.Valid()
}

// String returns the version as it stands in the header of a text trace: "Go1.22".
func (v Version) String() string { return "Go1." + strconv.Itoa(int(v)) }

// Valid reports whether v is a version that this package knows.
func (v Version) Valid() bool { return int(v) < len(formats) && formats[v] != nil }

// V1 reports whether v is one of the formats that Go had before 1.22: batches for each P, one list of strings and stacks
// for the whole trace, and event types of their own (EvV1...).
func (v Version) V1() bool { return v < Go122 }

// Specs returns what events the version has, indexed by Type. Types without a name are not in it. The result is shared
// and must not be changed; it is nil for an invalid version.
func (v Version) Specs() []Spec {
	if !v.Valid() {
		return nil
	}
	return v.format().specs
}
