package raw

import "io"

// An EventReader is a source of events. [Reader] and [TextReader] implement it.
type EventReader interface {
	// Version returns the version of the trace.
	Version() Version
	// ReadEvent reads the next event into ev and reuses its slices. It returns io.EOF at the end of the trace.
	ReadEvent(ev *Event) error
}

// An EventWriter is a destination of events. [Writer] and [TextWriter] implement it.
type EventWriter interface {
	// Version returns the version of the trace.
	Version() Version
	// WriteEvent writes an event. It must not retain ev or any of its slices.
	WriteEvent(ev *Event) error
}

// Copy copies events from src to dst until the end of src or until an error occurs. It returns the number of events
// written and the first error. A successful Copy returns a nil error, not io.EOF. Copy does not close dst. If it
// converts between the two formats, it is faster than calls of ReadEvent and WriteEvent.
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

// WireToText reads a trace in the wire format from r and writes it to w in the text format. If reading fails, the
// events before the error have been written.
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
