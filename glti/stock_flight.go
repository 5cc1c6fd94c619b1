//go:build go1.25

package glti

import (
	"runtime/trace"
	"time"
)

const traceLimits = "about a second late; while callbacks of events are registered, a trace.FlightRecorder of the application cannot start, unless it started first: " +
	"then the application's trace.Start can fail"

// newTraceSource returns a source that records with a flight recorder. The application can start a trace at the same time.
func newTraceSource() traceSource { return &flight{} }

const (
	flightEvery = time.Second
	flightBytes = 128 << 20
)

// flight is a source that reads the window of a flight recorder again and again. If the application has one, it is a startedTrace.
type flight struct {
	recorder *trace.FlightRecorder
	started  startedTrace
}

func (f *flight) start(s *splitter) error {
	r := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: 3 * flightEvery, MaxBytes: flightBytes})
	if r.Start() != nil {
		return f.started.start(s)
	}
	f.recorder = r
	return nil
}

func (f *flight) stop() {
	if f.recorder == nil {
		f.started.stop()
		return
	}
	f.recorder.Stop()
	f.recorder = nil
}

// poll reads the window. The splitter skips generations that it has seen.
func (f *flight) poll(s *splitter, exact bool) error {
	if f.recorder == nil {
		return f.started.poll(s, exact)
	}
	if exact {
		traceAdvance(false) // the recorder has this generation for certain when WriteTo has ended the next
	}
	s.again()
	_, err := f.recorder.WriteTo(s)
	s.finish()
	return err
}

func (f *flight) pollEvery() time.Duration { return flightEvery }
