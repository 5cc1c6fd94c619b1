package report

import (
	"io"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
)

// EventEncoder is a form that events are written in.
type EventEncoder interface {
	// Append adds an event to b, with the end of its line. ended is the interval that the event ends, as
	// stream.Transitions tells it; its zero value when there is none, or nobody asked.
	Append(b []byte, e *event.Event, ended *stream.Interval) []byte
}

// What an EventWriter keeps back: up to so many bytes, and nothing for longer than that.
const (
	liveBufferBytes = 64 << 10
	liveFlushPeriod = 50 * time.Millisecond
)

// EventWriter writes events as they happen: in large pieces when there are many, soon when there are few.
type EventWriter struct {
	encoder EventEncoder
	out     io.Writer

	mu    sync.Mutex
	buf   []byte
	held  uint64      // events in buf
	total uint64      // events that were written
	err   error       // of the first write that failed; nothing is written after that
	timer *time.Timer // flushes what came liveFlushPeriod ago; while nothing comes, nobody wakes up
}

// NewEventWriter starts a writer. It must be closed.
func NewEventWriter(out io.Writer, encoder EventEncoder) *EventWriter {
	w := &EventWriter{encoder: encoder, out: out, buf: make([]byte, 0, 2*liveBufferBytes)}
	w.timer = time.AfterFunc(liveFlushPeriod, w.flushNow)
	return w
}

// Write writes an event, and tells of the interval that it ends if the form has a place for that. The error may be that of an event before.
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

// Close writes what is left.
func (w *EventWriter) Close() error {
	w.timer.Stop()
	w.flushNow()
	return w.err
}

// Written returns how many events were written, after Close.
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
