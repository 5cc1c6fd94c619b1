package glti

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// The wire format of execution traces since Go 1.22 (internal/trace/tracev2 in the sources of Go): a header of 16 bytes, then batches,
// which belong to generations of about a second. The next generation begins when all batches of one have been written.

// Types of events that the format itself needs.
const (
	wireBatch             = 1
	wireStacks            = 2
	wireStrings           = 4
	wireString            = 5
	wireCPUSamples        = 6
	wireFrequency         = 8
	wireExperimentalBatch = 49
	wireSync              = 50
	wireClockSnapshot     = 51
	wireEndOfGeneration   = 52
)

const (
	traceHeaderSize   = 16
	maxBatchSize      = 64 << 10
	maxGenerationSize = 64 << 20
)

// traceHeaders are the headers of the formats that this package reads.
var traceHeaders = []string{"go 1.22", "go 1.23", "go 1.25", "go 1.26"}

// traceBatch is a batch of events of a thread.
type traceBatch struct {
	thread uint64
	time   uint64 // of the first event, to which it adds
	data   []byte
}

// generation is a part of a trace with tables of its own.
type generation struct {
	number  uint64
	size    int
	batches []traceBatch // of timed events
	strings [][]byte     // batches of strings
	sync    traceBatch   // the frequency, and since Go 1.25 the clocks
	lost    uint64       // events of batches that did not fit
	missed  uint64       // generations before it that were not received
}

// splitter divides a trace into generations. It is written to by one goroutine at a time, often the runtime's trace reader.
type splitter struct {
	mu      sync.Mutex
	header  []byte // what was received of the header
	partial []byte // the begin of a batch
	current *generation
	after   uint64            // generations up to this number are ignored
	done    func(*generation) // receives each complete generation
	failed  error
}

var errBadTrace = errors.New("cannot read the execution trace of this Go release")

// Write never fails: the runtime ignores errors. What it cannot read ends the delivery, and the splitter has the error.
func (s *splitter) Write(data []byte) (int, error) {
	size := len(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return size, nil
	}
	if missing := traceHeaderSize - len(s.header); missing > 0 {
		n := min(missing, len(data))
		s.header = append(s.header, data[:n]...)
		data = data[n:]
		if len(s.header) == traceHeaderSize && !knownHeader(string(s.header)) {
			s.failed = fmt.Errorf("%w: it begins with %q", errBadTrace, s.header)
			return size, nil
		}
	}
	if len(s.partial) > 0 {
		data = append(s.partial, data...)
	}
	for len(data) > 0 {
		n, err := s.batch(data)
		if err != nil {
			s.failed = err
			return size, nil
		}
		if n == 0 {
			break
		}
		data = data[n:]
	}
	s.partial = append([]byte(nil), data...)
	return size, nil
}

func knownHeader(header string) bool {
	for _, known := range traceHeaders {
		if strings.HasPrefix(header, known+" trace\x00") {
			return true
		}
	}
	return false
}

// batch reads a batch, and returns its size, 0 if it is not complete yet.
func (s *splitter) batch(data []byte) (size int, err error) {
	fields := 4 // generation, thread, time, size
	switch data[0] {
	case wireEndOfGeneration:
		s.end()
		return 1, nil
	case wireExperimentalBatch:
		fields = 5 // the experiment comes first
	case wireBatch:
	default:
		return 0, fmt.Errorf("%w: batch of type %d", errBadTrace, data[0])
	}
	var values [5]uint64
	at := 1
	for i := 0; i < fields; i++ {
		v, n := binary.Uvarint(data[at:])
		switch {
		case n < 0:
			return 0, errBadTrace
		case n == 0:
			return 0, nil
		}
		values[i] = v
		at += n
	}
	v := values[fields-4 : fields]
	if v[3] > maxBatchSize {
		return 0, fmt.Errorf("%w: a batch of %d bytes", errBadTrace, v[3])
	}
	if uint64(len(data)-at) < v[3] {
		return 0, nil
	}
	size = at + int(v[3])
	if fields == 4 {
		s.add(v[0], traceBatch{thread: v[1], time: v[2], data: data[at:size]})
	}
	return size, nil
}

// add adds a batch to its generation.
func (s *splitter) add(number uint64, b traceBatch) {
	if number <= s.after {
		return
	}
	if s.current != nil && s.current.number != number {
		s.end()
	}
	if s.current == nil {
		s.current = &generation{number: number}
		if s.after != 0 {
			s.current.missed = number - s.after - 1
		}
	}
	if len(b.data) == 0 {
		return
	}
	g := s.current
	kind := b.data[0]
	timed := kind != wireStrings && kind != wireSync && kind != wireFrequency
	switch {
	case kind == wireStacks || kind == wireCPUSamples:
		return // nothing here has stacks
	case timed && g.size > maxGenerationSize:
		g.lost += countEvents(b.data)
		return
	}
	g.size += len(b.data)
	b.data = append([]byte(nil), b.data...) // the runtime uses the buffer again
	switch {
	case timed:
		g.batches = append(g.batches, b)
	case kind == wireStrings:
		g.strings = append(g.strings, b.data)
	default:
		g.sync = b
	}
}

// finish completes the last generation at the end of a trace.
func (s *splitter) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// again expects the same trace again, from its header on.
func (s *splitter) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.header, s.partial = s.header[:0], nil
}

// error returns why the trace cannot be read.
func (s *splitter) error() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// end completes the current generation.
func (s *splitter) end() {
	if g := s.current; g != nil {
		s.current, s.after = nil, g.number
		s.done(g)
	}
}

// wireEvent is a timed event.
type wireEvent struct {
	kind byte
	time uint64
	args [5]uint64 // without the time
}

// countEvents returns the number of events in a batch, as far as it can be read.
func countEvents(data []byte) (n uint64) {
	for c := (batchCursor{data: data}); c.next(); {
		n++
	}
	return n
}

// batchCursor reads the events of a batch.
type batchCursor struct {
	data  []byte
	event wireEvent // the current event
	err   error
}

// next reads the next event. It returns false at the end and after an error.
func (c *batchCursor) next() bool {
	if len(c.data) == 0 || c.err != nil {
		return false
	}
	kind := c.data[0]
	args := wireArgs[kind]
	if args < timed {
		c.err = fmt.Errorf("%w: event of type %d", errBadTrace, kind)
		return false
	}
	c.data = c.data[1:]
	c.event.kind = kind
	c.event.time += c.number()
	for i := 0; i < int(args-timed); i++ {
		c.event.args[i] = c.number()
	}
	return c.err == nil
}

// number reads a number.
func (c *batchCursor) number() uint64 {
	v, n := binary.Uvarint(c.data)
	if n <= 0 {
		c.err = fmt.Errorf("%w: bad number", errBadTrace)
		return 0
	}
	c.data = c.data[n:]
	return v
}

// readStrings reads the strings of a generation.
func (g *generation) readStrings() (map[uint64]string, error) {
	table := map[uint64]string{}
	for _, data := range g.strings {
		c := batchCursor{data: data[1:]}
		for len(c.data) > 0 {
			kind := c.data[0]
			c.data = c.data[1:]
			id, size := c.number(), c.number()
			if kind != wireString || c.err != nil || size > uint64(len(c.data)) {
				return nil, fmt.Errorf("%w: bad string", errBadTrace)
			}
			table[id] = string(c.data[:size])
			c.data = c.data[size:]
		}
	}
	return table, nil
}

// traceClock converts times of a trace to those of Now.
type traceClock struct {
	nanoseconds float64 // of a unit
	offset      int64
}

func (c traceClock) time(t uint64) int64 { return int64(float64(t)*c.nanoseconds) + c.offset }

// readClock reads the frequency and clocks of a generation.
func (g *generation) readClock() (clock traceClock, err error) {
	begin := g.sync.time
	c := batchCursor{data: g.sync.data}
	for len(c.data) > 0 && c.err == nil {
		kind := c.data[0]
		c.data = c.data[1:]
		switch kind {
		case wireSync:
		case wireFrequency:
			if f := c.number(); f > 0 {
				clock.nanoseconds = 1e9 / float64(f)
			}
		case wireClockSnapshot:
			begin += c.number()
			mono := c.number()
			c.number() // wall-clock time
			c.number()
			// Where the trace's clock is that of Now, the difference is the time between two readings.
			if offset := int64(mono) - int64(float64(begin)*clock.nanoseconds); offset < -1e6 || offset > 1e6 {
				clock.offset = offset
			}
		default:
			return clock, fmt.Errorf("%w: event of type %d with the clocks", errBadTrace, kind)
		}
	}
	if c.err != nil || clock.nanoseconds == 0 {
		return clock, fmt.Errorf("%w: no frequency", errBadTrace)
	}
	return clock, nil
}
