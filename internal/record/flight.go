package record

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// Flight keeps the last stretch of a recording in memory: a Go execution trace whose oldest generations are forgotten.
// Each generation tells of every goroutine, so those that are left are a trace. It is not safe for use by several
// goroutines.
type Flight struct {
	keep  time.Duration
	room  int64
	opt   export.Options
	w     *trace.Writer
	head  []byte // of the trace
	parts []part
	size  int64
	now   int64 // time of the last event
	short bool  // generations were forgotten for want of room
	over  bool  // no event comes any more
}

// part is a generation.
type part struct {
	number uint64
	begin  int64 // ns since the Unix epoch
	bytes  []byte
}

// flightGeneration is how much time a generation covers: so much more than asked for is kept.
const flightGeneration = 500 * time.Millisecond

// NewFlight keeps the last stretch of a length, as far as it fits into so many bytes.
func NewFlight(keep time.Duration, room int64, opt export.Options) (*Flight, error) {
	f := &Flight{keep: keep, room: room, opt: opt}
	var err error
	f.w, err = trace.NewWriter((*flightOutput)(f), trace.WriterOptions{Version: opt.Version, Procs: opt.Procs, Generation: flightGeneration})
	return f, err
}

// Write adds an event.
func (f *Flight) Write(e *event.Event) error {
	f.now = max(f.now, e.Time)
	return f.w.Write(e)
}

// Close completes the trace after the last event. Take still returns what is kept.
func (f *Flight) Close() error {
	f.over = true
	return f.w.Close()
}

// Stretch is what a Flight has kept until a moment.
type Stretch struct {
	From, To time.Time
	// Short says that less time is there than was asked for, since it did not fit into the memory that it may take.
	Short bool

	opt   export.Options
	head  []byte
	parts []part
}

// Take returns what is kept. Recording continues, and the stretch does not change. There is nothing to return before the first
// event other than GoStatus, unless the Flight is closed.
func (f *Flight) Take() (*Stretch, error) {
	if !f.over {
		if err := f.w.Flush(); err != nil {
			return nil, err
		}
	}
	if len(f.parts) == 0 {
		return nil, errors.New("no events yet")
	}
	return &Stretch{From: time.Unix(0, f.parts[0].begin), To: time.Unix(0, f.now), Short: f.short,
		opt: f.opt, head: f.head, parts: slices.Clone(f.parts)}, nil
}

// Write writes the stretch in a format.
func (s *Stretch) Write(out io.Writer, format *export.Format) error {
	switch format.Name {
	case export.Go:
		_, err := io.Copy(out, s.reader())
		return err
	case export.Text:
		return raw.WireToText(out, s.reader())
	}
	r, err := trace.NewReader(s.reader())
	if err != nil {
		return err
	}
	sink, err := format.New(out, s.opt)
	if err != nil {
		return err
	}
	for e, err := range r.Events() {
		if err == nil {
			err = sink.Write(e)
		}
		if err != nil {
			return err
		}
	}
	return sink.Close()
}

// Count returns the number of events of the stretch, of its goroutines, and of those that are alive at its end.
func (s *Stretch) Count() (events uint64, goroutines, alive int, err error) {
	r, err := trace.NewReader(s.reader())
	if err != nil {
		return 0, 0, 0, err
	}
	for e, err := range r.Events() {
		if err != nil {
			return 0, 0, 0, err
		}
		events++
		switch e.Kind {
		case event.GoStatus, event.GoCreate:
			goroutines++
			alive++
		case event.GoDestroy:
			alive--
		}
	}
	return events, goroutines, alive, nil
}

// reader reads the trace that the generations are.
func (s *Stretch) reader() io.Reader {
	at, rest := s.head, s.parts
	return readerFunc(func(p []byte) (int, error) {
		for len(at) == 0 {
			if len(rest) == 0 {
				return 0, io.EOF
			}
			at, rest = rest[0].bytes, rest[1:]
		}
		n := copy(p, at)
		at = at[n:]
		return n, nil
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// flightOutput is a Flight as the output of its writer.
type flightOutput Flight

// Write takes a batch of the trace, or its header, or the mark at the end of a generation. It never fails.
func (o *flightOutput) Write(b []byte) (int, error) {
	f := (*Flight)(o)
	if f.head == nil {
		f.head = append([]byte(nil), b...)
		return len(b), nil
	}
	if number, begin, ok := batchOf(b); ok {
		if n := len(f.parts); n == 0 || f.parts[n-1].number != number {
			f.forget(begin)
			f.parts = append(f.parts, part{number: number, begin: begin})
		}
		p := &f.parts[len(f.parts)-1]
		p.begin = min(p.begin, begin)
	}
	p := &f.parts[len(f.parts)-1]
	p.bytes = append(p.bytes, b...)
	f.size += int64(len(b))
	for f.size > f.room && len(f.parts) > 1 {
		f.short = true
		f.drop()
	}
	return len(b), nil
}

// forget drops generations that are not needed when one begins at a time: those with a complete stretch after them.
func (f *Flight) forget(begin int64) {
	for len(f.parts) > 1 && begin-f.parts[1].begin >= int64(f.keep) {
		f.drop()
	}
}

func (f *Flight) drop() {
	f.size -= int64(len(f.parts[0].bytes))
	f.parts[0] = part{}
	f.parts = f.parts[1:]
}

// batchOf returns the generation of a batch and when it begins, in ns since the Unix epoch, which is what the writer's
// ticks are.
func batchOf(b []byte) (generation uint64, begin int64, ok bool) {
	if len(b) == 0 || raw.Type(b[0]) != raw.EvEventBatch {
		return 0, 0, false
	}
	b = b[1:]
	var args [3]uint64 // generation, thread, time
	for i := range args {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, 0, false
		}
		args[i], b = x, b[n:]
	}
	return args[0], int64(args[2]), true
}
