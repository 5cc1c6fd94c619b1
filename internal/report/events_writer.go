package report

import (
	"io"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
)

// An EventEncoder encodes events, as text or as JSON.
type EventEncoder interface {
	// Append appends an event to b, including the end of its line. ended is the interval that the event ends, as returned
	// by stream.Transitions. It is zero if there is none or if it was not requested.
	Append(b []byte, e *event.Event, ended *stream.Interval) []byte
}

// Limits on the size and the age of the data that an EventWriter buffers.
const (
	liveBufferBytes = 64 << 10
	liveFlushPeriod = 50 * time.Millisecond
)

// An EventWriter writes events as they happen. It writes large pieces if there are many events, and without much delay
// if there are few.
type EventWriter struct {
	encoder EventEncoder
	out     io.Writer

	mu    sync.Mutex
	buf   []byte
	held  uint64      // events in buf
	total uint64      // events that were written
	err   error       // error of the first failed write; nothing is written after it
	timer *time.Timer // flushes data that is liveFlushPeriod old; it does not run if there is no data
}

// NewEventWriter returns an EventWriter, which must be closed.
func NewEventWriter(out io.Writer, encoder EventEncoder) *EventWriter {
	w := &EventWriter{encoder: encoder, out: out, buf: make([]byte, 0, 2*liveBufferBytes)}
	w.timer = time.AfterFunc(liveFlushPeriod, w.flushNow)
	return w
}

// Write writes an event, and the interval that it ends if the encoder supports that. The error may be that of an
// earlier event.
func (w *EventWriter) Write(e *event.Event, ended *stream.Interval) error {
	w.mu.Lock()
	if len(w.buf) == 0 {
		w.timer.Reset(liveFlushPeriod)
	}
	w.buf = w.encoder.Append(w.buf, e, ended)
	w.held++
	if len(w.buf) >= liveBufferBytes {
		w.flush()
	}
	err := w.err
	w.mu.Unlock()
	return err
}

// Close writes the buffered data.
func (w *EventWriter) Close() error {
	w.timer.Stop()
	w.flushNow()
	return w.err
}

// Written returns the number of events that were written. It must be called after Close.
func (w *EventWriter) Written() uint64 { return w.total }

func (w *EventWriter) flushNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

// flush writes the buffer. The caller holds mu.
func (w *EventWriter) flush() {
	if len(w.buf) > 0 && w.err == nil {
		if _, w.err = w.out.Write(w.buf); w.err == nil {
			w.total += w.held
		}
	}
	w.buf, w.held = w.buf[:0], 0
}
