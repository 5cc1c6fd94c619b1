package raw

import "strconv"

// A Version identifies a format of execution traces by the minor version of the Go release that introduced it.
type Version uint8

// The supported versions. The comment of each lists the Go releases that write it.
const (
	Go111 Version = 11 // Go 1.11 to 1.18
	Go119 Version = 19 // Go 1.19 and 1.20
	Go121 Version = 21 // Go 1.21
	Go122 Version = 22 // Go 1.22
	Go123 Version = 23 // Go 1.23 and 1.24
	Go125 Version = 25 // Go 1.25
	Go126 Version = 26 // Go 1.26 and 1.27
)

// ReadBy returns the newest version that the tools of a Go release can read. The argument is the minor version of the
// release, such as 24 for Go 1.24. For releases before Go 1.11, whose formats are not supported, ok is false.
func ReadBy(minor int) (v Version, ok bool) {
	for known := range formats {
		if known <= minor && formats[known] != nil {
			v = Version(known)
		}
	}
	return v, v.Valid()
}

// String returns the version as it is written in the header of a text trace, such as "Go1.22".
func (v Version) String() string { return "Go1." + strconv.Itoa(int(v)) }

// Valid reports whether v is a supported version.
func (v Version) Valid() bool { return int(v) < len(formats) && formats[v] != nil }

// V1 reports whether v is a version from before Go 1.22. In these, each batch belongs to a P, strings and stacks are
// valid in the whole trace, and event types are different (EvV1...).
func (v Version) V1() bool { return v < Go122 }

// Specs returns the specifications of the event types of the version, indexed by [Type]. An element with an empty name
// means that the version does not have the type. The result is shared and must not be modified. It is nil if v is
// invalid.
func (v Version) Specs() []Spec {
	if !v.Valid() {
		return nil
	}
	return v.format().specs
}
