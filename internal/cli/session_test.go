package cli

import (
	"context"
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/spans"
)

// fakeStream is what attaching to any process of a fakeSystem gives.
type fakeStream struct {
	attachErr error
	events    []event.Event
	repeat    bool // the events come again and again until the session ends
	goesOn    bool // after the events the session lasts until it is ended
	err       error
	stats     event.Stats // Events is counted
	warnings  []string
	late      string        // a warning that comes during the session
	leaving   chan struct{} // unless nil, detaching takes until it is closed, and the events go on until then

	spans      []spans.Span // handled before the events
	spanCounts loupe.SpanCounts

	allocs    allocs.Counts // what Allocs returns
	allocsErr error

	memory    *event.Memory // what Memory returns
	memoryErr error

	observed    []uint64 // what Observed returns
	observedErr error

	target   watched // that was attached to
	options  loupe.Options
	closed   bool
	consumed uint64 // atomic
}

func (f *fakeSystem) attach(ctx context.Context, target watched, opt loupe.Options) (session, error) {
	s := &f.stream
	s.target, s.options = target, opt
	if s.attachErr != nil {
		return nil, s.attachErr
	}
	fake := &fakeSession{fakeStream: s, ctx: ctx, yielded: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	if target.program == nil {
		return fake, nil
	}
	if err := target.program.Start(); err != nil {
		return nil, err
	}
	go func() {
		fake.status = programStatus(target.program.Wait())
		close(fake.ended)
	}()
	return fake, nil
}

// fakeSession yields made-up events. All of them have happened when the session begins: it yields them even if the context is
// done by then.
type fakeSession struct {
	*fakeStream
	ctx     context.Context
	yielded chan struct{} // closed when the events have been yielded
	close   sync.Once
	over    chan struct{} // closed by Close

	ended  chan struct{} // the program has ended
	status int
}

func (s *fakeSession) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		yielded := sync.OnceFunc(func() { close(s.yielded) })
		defer yielded()
		for i := range s.spans {
			s.options.Spans.Handle(&s.spans[i])
		}
		for {
			for i := range s.events {
				shared := s.events[i] // gone after the next one, as the real ones are
				atomic.AddUint64(&s.consumed, 1)
				if s.repeat && s.ctx.Err() != nil || !yield(&shared) {
					return
				}
				shared = event.Event{}
			}
			if !s.repeat {
				break
			}
		}
		yielded()
		if s.leaving != nil {
			<-s.leaving
		} else if s.goesOn {
			select {
			case <-s.ctx.Done():
			case <-s.over:
			case <-s.ended:
			}
		}
	}
}

func (s *fakeSession) Info() event.ProcessInfo {
	return event.ProcessInfo{PID: s.PID(), Exe: "/bin/app", GoVersion: "go1.27.4"}
}
func (s *fakeSession) SpanCounts() (loupe.SpanCounts, error) { return s.spanCounts, nil }

func (s *fakeSession) Err() error         { return s.err }
func (s *fakeSession) Stats() event.Stats { return s.stats }

func (s *fakeSession) Warnings() []event.Warning {
	if s.late != "" && atomic.LoadUint64(&s.consumed) > 0 {
		return warningsOf(append(s.warnings[:len(s.warnings):len(s.warnings)], s.late))
	}
	return warningsOf(s.warnings)
}

func warningsOf(texts []string) []event.Warning {
	var warnings []event.Warning
	for _, text := range texts {
		warnings = append(warnings, event.Warning{Kind: event.WarnMissing, Text: text})
	}
	return warnings
}

func (s *fakeSession) PID() int {
	if s.target.program != nil {
		return s.target.program.Process.Pid
	}
	return s.target.pid
}

func (s *fakeSession) Close() error {
	s.closed = true
	s.close.Do(func() { close(s.over) })
	return nil
}

func (s *fakeSession) Detach() error {
	if s.leaving != nil {
		<-s.leaving
	}
	s.close.Do(func() { close(s.over) })
	return nil
}

// Usage waits for the events, so that every picture has all of them.
func (s *fakeSession) Usage() (event.Usage, error) {
	<-s.yielded
	return event.Usage{}, nil
}

func (s *fakeSession) Record(w io.Writer, opt loupe.RecordOptions) (loupe.Recording, error) {
	opt.Kinds = s.options.Kinds
	return loupe.Record(w, s.Events(), opt)
}

func (s *fakeSession) FlightRecorder(opt loupe.FlightOptions) (*loupe.FlightRecorder, error) {
	return loupe.NewFlightRecorder(opt)
}

func (s *fakeSession) Profile(opt loupe.ProfileOptions) (*loupe.EventProfile, error) {
	return loupe.Profile(s.Events(), opt)
}

func (s *fakeSession) Allocs() (*allocs.Counts, error) { return &s.allocs, s.allocsErr }

func (s *fakeSession) AllocProfile(c *allocs.Counts) *profile.Profile {
	return pprof.Allocs(c, pprof.Mapping{})
}

func (s *fakeSession) Memory(context.Context) (*event.Memory, error) { return s.memory, s.memoryErr }

func (s *fakeSession) Alive() ([]uint64, error) { return nil, nil }

func (s *fakeSession) Observed() ([]uint64, error) { return s.observed, s.observedErr }
func (s *fakeSession) ExitStatus() (int, bool) {
	if s.target.program == nil {
		return 0, false
	}
	<-s.ended
	return s.status, true
}

// sampleEvents are a goroutine's life with something of everything.
func sampleEvents() []event.Event {
	frame := func(function, file string, line int) event.Frame {
		return event.Frame{Func: function, File: file, Line: line}
	}
	worker := &event.Stack{Frames: []event.Frame{frame("main.worker", "/src/worker.go", 12), frame("main.main", "/src/main.go", 7)}}
	sender := &event.Stack{Frames: []event.Frame{frame("main.send", "/src/main.go", 30)}}
	unlocker := &event.Stack{Frames: []event.Frame{frame("sync.(*Mutex).Unlock", "/go/src/sync/mutex.go", 65), frame("main.free", "/src/main.go", 44)}}
	origin := &event.Origin{CreatedBy: frame("main.main", "/src/main.go", 7), Start: frame("main.worker", "/src/worker.go", 9)}
	const began = int64(1700000000_123456789)
	at := func(micros int64, e event.Event) event.Event {
		e.Time, e.PID, e.TID = began+micros*1000, 42, 43
		return e
	}
	return []event.Event{
		at(0, event.Event{Kind: event.GoStatus, G: 1, State: event.StateRunning}),
		at(10, event.Event{Kind: event.GoCreate, G: 18, Parent: 1, Origin: origin, Stack: sender}),
		at(20, event.Event{Kind: event.GoStart, G: 18}),
		at(30, event.Event{Kind: event.GoBlock, G: 18, Reason: "chan receive", TraceReason: "chan receive", Stack: worker}),
		at(1230, event.Event{Kind: event.GoUnblock, G: 18, By: 1, Stack: sender}),
		at(1235, event.Event{Kind: event.GoStart, G: 18}),
		at(1300, event.Event{Kind: event.GoBlock, G: 18, Reason: "sync.Mutex.Lock", Stack: worker}),
		at(3300, event.Event{Kind: event.GoUnblock, G: 18, By: 1, Stack: unlocker}),
		at(3350, event.Event{Kind: event.GoStart, G: 18}),
		at(3400, event.Event{Kind: event.GoBlock, G: 18, Reason: "IO wait", Stack: worker}),
		at(9400, event.Event{Kind: event.GoUnblock, G: 18}),
		at(9500, event.Event{Kind: event.GoStart, G: 18}),
		at(9600, event.Event{Kind: event.GoDestroy, G: 18}),
	}
}
