package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	// Version is the version of the protocol.
	Version = 1
	// Magic is the text of Hello.
	Magic = "loupe observe"
	// MaxMessage is the maximum length of a message, without its length field.
	MaxMessage = 1 << 20
	// MaxText is the maximum length of a text. Longer ones are truncated.
	MaxText = 4 << 10
	// MaxStack is the maximum number of addresses of a stack.
	MaxStack = 128
)

// Message is a message that either side sends.
type Message interface {
	kind() byte
	encode(*encoder)
	decode(*decoder)
}

// messages makes an empty message of each type.
var messages = map[byte]func() Message{
	'h': func() Message { return new(Hello) },
	's': func() Message { return new(Start) },
	'l': func() Message { return new(List) },
	'm': func() Message { return new(ReadMemory) },
	'p': func() Message { return new(Stop) },
	'W': func() Message { return new(Welcome) },
	'R': func() Message { return new(Refused) },
	'S': func() Message { return new(Started) },
	'T': func() Message { return new(Text) },
	'C': func() Message { return new(Site) },
	'F': func() Message { return new(Func) },
	'K': func() Message { return new(Stack) },
	'E': func() Message { return new(Events) },
	'G': func() Message { return new(Goroutines) },
	'g': func() Message { return new(GoroutinesEnd) },
	'M': func() Message { return new(Memory) },
	'X': func() Message { return new(End) },
}

// Append appends a message to a buffer.
func Append(b []byte, m Message) []byte {
	at := len(b)
	e := encoder{append(b, 0, 0, 0, 0, m.kind())}
	m.encode(&e)
	binary.LittleEndian.PutUint32(e.b[at:], uint32(len(e.b)-at-4))
	return e.b
}

// ErrGarbage is wrapped by the errors of a Reader that has read something else than a message.
var ErrGarbage = errors.New("not a message of the observe protocol")

// Reader reads messages.
type Reader struct {
	from io.Reader
	buf  []byte
	max  int
}

// NewReader returns a reader of messages that are not longer than max, or MaxMessage if max is 0.
func NewReader(from io.Reader, max int) *Reader {
	if max == 0 {
		max = MaxMessage
	}
	return &Reader{from: from, max: max}
}

// Next returns the next message. It is valid until the following call. The error is io.EOF at the end of the stream.
func (r *Reader) Next() (Message, error) {
	var header [5]byte
	if _, err := io.ReadFull(r.from, header[:]); err != nil {
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(header[:])) - 1
	empty, known := messages[header[4]]
	if !known || n < 0 || n >= r.max {
		return nil, fmt.Errorf("%w: type %q, length %d", ErrGarbage, header[4], n+1)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.from, r.buf); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	m := empty()
	d := decoder{b: r.buf}
	m.decode(&d)
	if d.bad || len(d.b) > 0 {
		return nil, fmt.Errorf("%w: malformed message of type %q", ErrGarbage, header[4])
	}
	return m, nil
}

// encoder appends fields.
type encoder struct{ b []byte }

func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) int(n int64)   { e.b = binary.AppendVarint(e.b, n) }
func (e *encoder) bool(v bool) {
	n := uint64(0)
	if v {
		n = 1
	}
	e.uint(n)
}
func (e *encoder) text(s string) {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// decoder reads fields. After an error all fields are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.b, d.bad = nil, true
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	if n <= 0 {
		return 0
	}
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	if n <= 0 {
		return 0
	}
	return v
}

func (d *decoder) bool() bool { return d.uint() != 0 }

func (d *decoder) text() string {
	n := d.uint()
	if n > MaxText || n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

// length returns the length of a list whose elements have at least one byte.
func (d *decoder) length() int {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.b, d.bad = nil, true
		return 0
	}
	return int(n)
}
