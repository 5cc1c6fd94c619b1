package raw

import (
	"encoding/binary"
	"sync"
)

// A format is what readers and writers have to know of a version, in the form that they use it.
type format struct {
	version Version
	specs   []Spec
	// codes has the events by their first byte on the wire. In versions from Go 1.22 on this is the type. In V1 versions
	// the upper two bits tell how many numbers follow, and there is one right value of them for each type.
	codes [256]code
	// first is the first byte on the wire, and so the index into codes, by type.
	first [256]byte
	names nameTable
}

// A code is what is known of one type of event.
type code struct {
	spec   *Spec // nil if there is no such event
	typ    Type
	args   uint8 // number of arguments
	length bool  // the first number is the length of the numbers that follow, in bytes (V1)
	// plain is set for events that consist of arguments alone.
	plain bool
	// lead is what an event's line begins with, up to the first value.
	lead piece
	// seps is what stands before each argument but the first.
	seps [maxArgs]piece
}

// maxArgs is the most arguments that an event has.
const maxArgs = 5

// A piece is a short constant text, in forms that are copied and compared fast.
type piece struct {
	text [pieceSize]byte // with zeros after the text
	size uint8
	head uint64 // the first 8 bytes of text, or all of it and zeros
	mask uint64 // the bits of head that are text
	tail string // the rest of the text
}

const pieceSize = 24

// makePiece returns a piece, or panics if the text is too long for one. Texts are constants of this package.
func makePiece(s string) piece {
	if len(s) > pieceSize {
		panic("trace/raw: too long for a piece: " + s)
	}
	p := piece{size: uint8(len(s)), mask: 1<<(8*min(len(s), 8)) - 1, tail: s[min(len(s), 8):]}
	copy(p.text[:], s)
	p.head = binary.LittleEndian.Uint64(p.text[:])
	return p
}

// begins reports whether b begins with the piece. b has at least 8 bytes.
func (p *piece) begins(b []byte) bool {
	return binary.LittleEndian.Uint64(b)&p.mask == p.head && (p.tail == "" || p.tailFollows(b))
}

// tailFollows is the part of begins for longer texts.
func (p *piece) tailFollows(b []byte) bool {
	return len(b) >= int(p.size) && string(b[8:p.size]) == p.tail
}

// formats has the formats of the versions there are. A format is made when it is first asked for.
var formats = makeFormats()

func makeFormats() (all [Go126 + 1]func() *format) {
	for _, v := range []Version{Go111, Go119, Go121, Go122, Go123, Go125, Go126} {
		all[v] = sync.OnceValue(func() *format { return makeFormat(v) })
	}
	return all
}

// format returns the format of a version, or nil if it is not valid.
func (v Version) format() *format {
	if !v.Valid() {
		return nil
	}
	return formats[v]()
}

// makeFormat makes the format of a version out of the tables of events.
func makeFormat(v Version) *format {
	table := v2Specs
	if v.V1() {
		table = v1Specs
	}
	f := &format{version: v}
	for t, s := range table {
		if v < s.since {
			continue
		}
		spec := s.spec
		if r, ok := v1Renamed[t]; ok && v.V1() && v < r.until {
			spec.Name = r.name
		}
		for len(f.specs) <= int(t) {
			f.specs = append(f.specs, Spec{})
		}
		f.specs[t] = spec
	}
	for t := range f.specs {
		if f.specs[t].Name != "" {
			f.addCode(Type(t), &f.specs[t])
		}
	}
	f.names = makeNameTable(f)
	return f
}

// addCode adds an event to f.codes.
func (f *format) addCode(t Type, spec *Spec) {
	c := code{spec: spec, typ: t, args: uint8(len(spec.Args))}
	first := byte(t)
	if f.version.V1() {
		bits := v1Count(spec)
		c.length = bits == v1HasLength
		first |= bits << v1CountShift
	}
	c.plain = !c.length && !spec.IsStack && !spec.HasData
	lead := spec.Name
	for i, arg := range spec.Args {
		if i == 0 {
			lead += " " + arg + "="
		} else {
			c.seps[i] = makePiece(" " + arg + "=")
		}
	}
	c.lead = makePiece(lead)
	f.codes[first] = c
	f.first[t] = first
}

// How a V1 event's first byte tells the number of numbers that follow it: internal/trace/parser.go in Go 1.21.
const (
	v1CountShift = 6
	v1HasLength  = 3 // the length of the event follows, because there are four numbers or more
)

// v1Count returns the upper two bits of the first byte of a V1 event.
func v1Count(spec *Spec) byte {
	switch {
	case spec.Name == "String":
		return 0 // an ID and data, which readers know without a count
	case spec.IsStack || len(spec.Args) > v1HasLength:
		return v1HasLength
	}
	return byte(len(spec.Args) - 1)
}
