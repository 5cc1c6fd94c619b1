package raw

import "io"

// An EventReader is a source of events: a Reader or a TextReader.
type EventReader interface {
	// Version returns the version of the trace.
	Version() Version
	// ReadEvent reads the next event into ev, whose slices it reuses. It returns io.EOF at the end of the trace.
	ReadEvent(ev *Event) error
}

// An EventWriter is a destination of events: a Writer or a TextWriter.
type EventWriter interface {
	// Version returns the version of the trace.
	Version() Version
	// WriteEvent writes an event, of which it keeps nothing.
	WriteEvent(ev *Event) error
}

// Copy writes all events of src to dst, up to the first error, and returns how many it has written. The end of src is no
// error. Copy does not close dst. Between the two formats it is faster than a loop of ReadEvent and WriteEvent.
func Copy(dst EventWriter, src EventReader) (events int64, err error) {
	quick := quickCopy(dst, src)
	var ev Event
	for {
		if quick != nil {
			events += quick()
		}
		if err := src.ReadEvent(&ev); err != nil {
			if err == io.EOF {
				err = nil
			}
			return events, err
		}
		if err := dst.WriteEvent(&ev); err != nil {
			return events, err
		}
		events++
	}
}

// WireToText reads a trace of the wire format to its end and writes it as text. What precedes an error is written.
func WireToText(w io.Writer, r io.Reader) error {
	from, err := NewReader(r)
	if err != nil {
		return err
	}
	to, err := NewTextWriter(w, from.Version())
	if err != nil {
		return err
	}
	_, err = Copy(to, from)
	if closeErr := to.Close(); err == nil {
		err = closeErr
	}
	return err
}
