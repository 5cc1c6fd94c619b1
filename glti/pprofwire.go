package glti

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxProfileSize limits the size of an uncompressed profile.
const maxProfileSize = 256 << 20

// profileSample is one sample of a CPU profile in the pprof format (proto/profile.proto of github.com/google/pprof).
type profileSample struct {
	stack []*profileLocation // leaf first
	count int64
}

// profileLocation is an address, with the frames that were inlined there, innermost first.
type profileLocation struct {
	address uint64
	lines   []position
}

// rawLocation is a location before the names of functions are known.
type rawLocation struct {
	address uint64
	lines   []rawLine
}

type rawLine struct {
	function uint64
	line     int64
}

// profileParser collects the parts of a profile, which can have any order.
type profileParser struct {
	samples   [][2][]uint64 // location IDs, values
	locations map[uint64]rawLocation
	functions map[uint64]uint64 // index of the name
	strings   []string
}

// parseProfile reads a compressed profile.
func parseProfile(compressed *bytes.Buffer) ([]profileSample, error) {
	gz, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(gz, maxProfileSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("profile: %w", err)
	case len(data) > maxProfileSize:
		return nil, errors.New("profile: too large")
	}
	return parsePlainProfile(data)
}

func parsePlainProfile(data []byte) ([]profileSample, error) {
	p := profileParser{locations: map[uint64]rawLocation{}, functions: map[uint64]uint64{}}
	if err := eachField(data, p.field); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return p.resolve()
}

// field reads a field of message Profile.
func (p *profileParser) field(number int, value uint64, data []byte) error {
	switch number {
	case 2: // sample
		var s [2][]uint64
		err := eachField(data, func(number int, value uint64, data []byte) error {
			if number != 1 && number != 2 {
				return nil
			}
			return eachNumber(value, data, func(v uint64) { s[number-1] = append(s[number-1], v) })
		})
		p.samples = append(p.samples, s)
		return err
	case 4: // location
		return p.location(data)
	case 5: // function
		var id, name uint64
		err := eachField(data, func(number int, value uint64, _ []byte) error {
			switch number {
			case 1:
				id = value
			case 2:
				name = value
			}
			return nil
		})
		p.functions[id] = name
		return err
	case 6: // string_table
		p.strings = append(p.strings, string(data))
	}
	return nil
}

// location reads a message Location.
func (p *profileParser) location(data []byte) error {
	var id uint64
	var loc rawLocation
	err := eachField(data, func(number int, value uint64, data []byte) error {
		switch number {
		case 1:
			id = value
		case 3:
			loc.address = value
		case 4: // line
			var line rawLine
			err := eachField(data, func(number int, value uint64, _ []byte) error {
				switch number {
				case 1:
					line.function = value
				case 2:
					line.line = int64(value)
				}
				return nil
			})
			loc.lines = append(loc.lines, line)
			return err
		}
		return nil
	})
	p.locations[id] = loc
	return err
}

// resolve returns the samples with their locations.
func (p *profileParser) resolve() ([]profileSample, error) {
	resolved := map[uint64]*profileLocation{}
	for id, raw := range p.locations {
		loc := &profileLocation{address: raw.address}
		for _, line := range raw.lines {
			name := p.functions[line.function]
			if name >= uint64(len(p.strings)) {
				return nil, errors.New("profile: unknown string")
			}
			loc.lines = append(loc.lines, position{p.strings[name], line.line})
		}
		resolved[id] = loc
	}
	var samples []profileSample
	for _, raw := range p.samples {
		if len(raw[1]) == 0 {
			return nil, errors.New("profile: a sample without a value")
		}
		s := profileSample{count: int64(raw[1][0])}
		for _, id := range raw[0] {
			loc := resolved[id]
			if loc == nil {
				return nil, errors.New("profile: unknown location")
			}
			s.stack = append(s.stack, loc)
		}
		samples = append(samples, s)
	}
	return samples, nil
}

var errBadProto = errors.New("bad protocol buffer")

// eachField calls f for each field of a message, with the value of a number or the data of everything else.
func eachField(message []byte, f func(number int, value uint64, data []byte) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errBadProto
		}
		message = message[n:]
		var value uint64
		var data []byte
		switch tag & 7 {
		case 0:
			if value, n = binary.Uvarint(message); n <= 0 {
				return errBadProto
			}
		case 1:
			n = 8
		case 2:
			size, prefix := binary.Uvarint(message)
			if prefix <= 0 || size > uint64(len(message)-prefix) {
				return errBadProto
			}
			n = prefix + int(size)
			data = message[prefix:n]
		case 5:
			n = 4
		default:
			return errBadProto
		}
		if n > len(message) {
			return errBadProto
		}
		message = message[n:]
		if err := f(int(tag>>3), value, data); err != nil {
			return err
		}
	}
	return nil
}

// eachNumber calls f for each element of a repeated field of numbers: packed ones in data, otherwise the one that is value.
func eachNumber(value uint64, data []byte, f func(uint64)) error {
	if data == nil {
		f(value)
		return nil
	}
	for len(data) > 0 {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			return errBadProto
		}
		f(v)
		data = data[n:]
	}
	return nil
}
