package tracefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/loupe-go/loupe/internal/export"
)

// A join puts several documents of one format together into one. The documents were written on their own, so the numbers
// by which they name things are the same: each part gets a range of its own.
type join interface {
	// part begins the next document, which is complete when it is closed.
	part() io.WriteCloser
	// close completes the whole.
	close() error
}

func newJoin(w io.Writer, format *export.Format) (join, error) {
	switch format.Name {
	case export.Perfetto:
		return &perfettoJoin{w: w}, nil
	case export.Chrome:
		return &chromeJoin{w: w}, nil
	}
	return nil, fmt.Errorf("cannot merge processes to format %s: must be perfetto or chrome", format.Name)
}

// partShift is where a part's number stands in the numbers that it changes. There are not 1<<40 things in a part.
const partShift = 40

// chromeJoin joins documents of package chrome: one list of events. Every event is a line.
type chromeJoin struct {
	w    io.Writer
	n    uint64 // parts begun
	some bool   // an event is written
	buf  []byte
}

func (j *chromeJoin) part() io.WriteCloser {
	j.n++
	return &chromePart{j: j, id: j.n - 1}
}

func (j *chromeJoin) close() error {
	if j.n > 0 {
		j.buf = append(j.buf, "\n]}\n"...)
	}
	return j.flush()
}

func (j *chromeJoin) flush() error {
	_, err := j.w.Write(j.buf)
	j.buf = j.buf[:0]
	return err
}

// A chromePart is one document on its way.
type chromePart struct {
	j    *chromeJoin
	id   uint64
	rest []byte // a line that has not ended
}

// The lines around the events of a document.
const (
	chromeHead = "{\"displayTimeUnit\""
	chromeTail = "]}"
)

// Write implements io.Writer.
func (p *chromePart) Write(b []byte) (int, error) {
	n := len(b)
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			p.rest = append(p.rest, b...)
			break
		}
		line := b[:end]
		if len(p.rest) > 0 {
			p.rest = append(p.rest, line...)
			line = p.rest
		}
		p.line(line)
		p.rest, b = p.rest[:0], b[end+1:]
	}
	const enough = 64 << 10
	if len(p.j.buf) >= enough {
		return n, p.j.flush()
	}
	return n, nil
}

// line takes a line of a document.
func (p *chromePart) line(line []byte) {
	switch j := p.j; {
	case bytes.HasPrefix(line, []byte(chromeHead)):
		if p.id == 0 {
			j.buf = append(append(j.buf, line...), '\n')
		}
	case string(line) == chromeTail:
	default:
		if j.some {
			j.buf = append(j.buf, ",\n"...)
		}
		j.some = true
		p.event(bytes.TrimSuffix(line, []byte(",")))
	}
}

// event writes an event with the part's number in the IDs that viewers take to be the same in all processes: those of
// flows, which stand at the end, and those of asynchronous events, which are texts and come before all that the program
// has named.
func (p *chromePart) event(line []byte) {
	j := p.j
	if p.id == 0 {
		j.buf = append(j.buf, line...)
		return
	}
	const asyncID, flowID = `,"id":"`, `,"name":"flow","id":`
	if i := bytes.Index(line, []byte(asyncID)); i >= 0 {
		i += len(asyncID)
		j.buf = append(j.buf, line[:i]...)
		j.buf = append(strconv.AppendUint(j.buf, p.id+1, 10), ' ')
		j.buf = append(j.buf, line[i:]...)
		return
	}
	if i := bytes.LastIndex(line, []byte(flowID)); i >= 0 {
		i += len(flowID)
		if id, err := strconv.ParseUint(string(bytes.TrimSuffix(line[i:], []byte("}"))), 10, partShift); err == nil {
			j.buf = append(j.buf, line[:i]...)
			j.buf = append(strconv.AppendUint(j.buf, p.id<<partShift|id, 10), '}')
			return
		}
	}
	j.buf = append(j.buf, line...)
}

// Close implements io.Closer.
func (p *chromePart) Close() error {
	if len(p.rest) > 0 {
		return errors.New("the Chrome document is not in lines")
	}
	return p.j.flush()
}

// perfettoJoin joins traces of package perfetto, which are lists of packets.
type perfettoJoin struct {
	w io.Writer
	n uint64
}

func (j *perfettoJoin) part() io.WriteCloser {
	j.n++
	return &perfettoPart{w: j.w, id: j.n - 1}
}

func (j *perfettoJoin) close() error { return nil }

// A perfettoPart is one trace on its way.
type perfettoPart struct {
	w    io.Writer
	id   uint64
	rest []byte // a packet that is not complete
	out  []byte
}

// Write implements io.Writer.
func (p *perfettoPart) Write(b []byte) (int, error) {
	if p.id == 0 {
		return p.w.Write(b)
	}
	p.rest = append(p.rest, b...)
	data := p.rest
	p.out = p.out[:0]
	for len(data) > 0 {
		f, size := nextField(data)
		if size == 0 {
			break // the rest is to come
		}
		if f.number != perfettoPacket || f.wire != wireBytes {
			return 0, errNoPerfetto
		}
		packet, err := p.message(f.content, packetChanges)
		if err != nil {
			return 0, err
		}
		p.out = appendBytesField(p.out, perfettoPacket, packet)
		data = data[size:]
	}
	p.rest = append(p.rest[:0], data...)
	if _, err := p.w.Write(p.out); err != nil {
		return 0, err
	}
	return len(b), nil
}

var errNoPerfetto = errors.New("the Perfetto trace contains data other than packets")

// Close implements io.Closer.
func (p *perfettoPart) Close() error {
	if len(p.rest) > 0 {
		return errNoPerfetto
	}
	return nil
}

// A change is what is done to a field of a message. Fields without one stay as they are.
type change struct {
	within map[uint64]change // the field is a message with these changes
	add    func(part uint64) uint64
}

// Numbers of Perfetto's fields whose values name things of the whole trace; those of package perfetto that are used here.
// Numbers of interned things are of a packet sequence, so they may stay.
const perfettoPacket = 1

var (
	ofPart        = change{add: func(part uint64) uint64 { return part << partShift }}
	packetChanges = map[uint64]change{
		10: {add: func(part uint64) uint64 { return part * sequencesOfPart }}, // trusted_packet_sequence_id
		11: {within: map[uint64]change{11: ofPart, 47: ofPart, 48: ofPart}},   // track_event: track_uuid, flow_ids, terminating_flow_ids
		60: {within: map[uint64]change{1: ofPart, 5: ofPart}},                 // track_descriptor: uuid, parent_uuid
	}
)

// sequencesOfPart is more than the packet sequences that a part has.
const sequencesOfPart = 16

// message returns a message with changes.
func (p *perfettoPart) message(data []byte, changes map[uint64]change) ([]byte, error) {
	out := make([]byte, 0, len(data)+16)
	for len(data) > 0 {
		f, size := nextField(data)
		if size == 0 {
			return nil, errNoPerfetto
		}
		c, changed := changes[f.number]
		switch {
		case !changed:
			out = append(out, data[:size]...)
		case c.within != nil && f.wire == wireBytes:
			inner, err := p.message(f.content, c.within)
			if err != nil {
				return nil, err
			}
			out = appendBytesField(out, f.number, inner)
		case c.add != nil && f.wire == wireVarint:
			out = binary.AppendUvarint(out, f.number<<3|wireVarint)
			out = binary.AppendUvarint(out, f.value+c.add(p.id))
		case c.add != nil && f.wire == wireFixed64:
			out = binary.AppendUvarint(out, f.number<<3|wireFixed64)
			out = binary.LittleEndian.AppendUint64(out, f.value+c.add(p.id))
		default:
			return nil, errNoPerfetto
		}
		data = data[size:]
	}
	return out, nil
}

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// A field is one of a protobuf message.
type field struct {
	number, wire uint64
	value        uint64 // of a number
	content      []byte // of wireBytes
}

// nextField reads the first field of a message and returns its size; 0 when it is not complete.
func nextField(b []byte) (field, int) {
	key, n := binary.Uvarint(b)
	if n <= 0 {
		return field{}, 0
	}
	f := field{number: key >> 3, wire: key & 7}
	switch f.wire {
	case wireVarint, wireBytes:
		v, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return f, 0
		}
		n += m
		if f.value = v; f.wire == wireBytes {
			if v > uint64(len(b)-n) {
				return f, 0
			}
			f.content = b[n : n+int(v)]
			n += int(v)
		}
	case wireFixed64, wireFixed32:
		size := 8
		if f.wire == wireFixed32 {
			size = 4
		}
		if len(b) < n+size {
			return f, 0
		}
		if size == 8 {
			f.value = binary.LittleEndian.Uint64(b[n:])
		}
		n += size
	default:
		return f, 0
	}
	return f, n
}

// appendBytesField appends a field with a message.
func appendBytesField(b []byte, number uint64, content []byte) []byte {
	b = binary.AppendUvarint(b, number<<3|wireBytes)
	b = binary.AppendUvarint(b, uint64(len(content)))
	return append(b, content...)
}
