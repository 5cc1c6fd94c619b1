package loupe

import (
	"cmp"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/record"
	"github.com/loupe-go/loupe/internal/spans/tasks"
)

// Conditions are reasons to end a flight recording. A zero field is no condition.
type Conditions struct {
	// Blocked holds if a goroutine has waited for longer than this. A wait that began before the observation counts from the
	// beginning of the observation.
	Blocked time.Duration

	// Reasons selects the waits that Blocked considers: those whose wait reason contains one of these texts, ignoring case.
	// Empty means waits for locks, to send on a channel, and to assist the garbage collector.
	Reasons []string

	// Goroutines holds if there are more goroutines than this.
	Goroutines int

	// Latency holds if a runnable goroutine has not run for longer than this.
	Latency time.Duration
}

// Any reports whether there is a condition.
func (c Conditions) Any() bool { return c.internal().Any() }

// Kinds returns the kinds of events that the conditions require, for [Options.Kinds].
func (c Conditions) Kinds() event.Kinds {
	if c.Any() {
		return event.KindsGoroutine
	}
	return event.Kinds{}
}

func (c Conditions) internal() *record.Conditions { return (*record.Conditions)(&c) }

// A Finding is the condition that ended a flight recording. The zero value means that no condition held.
type Finding struct {
	What   string        // what was found, such as "goroutine 18 has been blocked for 501ms"
	Detail string        // the rest of the sentence, which follows the place, such as ": sync.Mutex.Lock"
	Stack  *event.Stack  // where the goroutine waits, or last waited; nil if unknown
	Origin *event.Origin // where the goroutine was created; nil if unknown
}

// Met reports whether a condition held.
func (f *Finding) Met() bool { return f.What != "" }

// FlightOptions configures a [FlightRecorder].
type FlightOptions struct {
	// MinAge is the age up to which events are kept. Zero means DefaultFlightAge. Somewhat older events are kept too.
	MinAge time.Duration

	// MaxBytes limits the memory for events. Zero means DefaultFlightBytes. If the events of MinAge need more, the oldest
	// are dropped.
	MaxBytes int64

	// When ends the recording when one of its conditions holds.
	When Conditions

	// After is the time for which recording continues after a condition held, so that the end of a wait and its cause are
	// kept. The events of this time are kept in addition to those of MinAge.
	After time.Duration

	// Recording describes the observed program. Format and MaxBytes are ignored.
	Recording RecordOptions
}

// Defaults of FlightOptions.
const (
	DefaultFlightAge   = 10 * time.Second
	DefaultFlightBytes = 256 << 20 // 256 MiB
)

// A FlightRecorder keeps the newest events of a stream in memory until they are written. It is used like the FlightRecorder
// of runtime/trace, for a program that does not contain one. The methods may be called from any goroutine.
type FlightRecorder struct {
	opt FlightOptions

	mu      sync.Mutex // guards the other fields
	kept    *record.Flight
	names   *tasks.Names // holds back what is kept; nil if there are no tasks
	trigger *record.Trigger
	events  uint64
	found   record.Finding
	until   time.Time // when the recording ends, if a condition held
}

// NewFlightRecorder returns a FlightRecorder for any stream of events. For those of a session, [Session.FlightRecorder] is
// simpler.
func NewFlightRecorder(opt FlightOptions) (*FlightRecorder, error) {
	opt.MinAge, opt.MaxBytes = cmp.Or(opt.MinAge, DefaultFlightAge), cmp.Or(opt.MaxBytes, DefaultFlightBytes)
	opt.Recording.Kinds = cmp.Or(opt.Recording.Kinds, event.KindsDefault)
	keep := opt.MinAge
	if opt.When.Any() {
		keep += opt.After
	}
	kept, err := record.NewFlight(keep, opt.MaxBytes, opt.Recording.internal())
	if err != nil {
		return nil, err
	}
	return &FlightRecorder{opt: opt, kept: kept, trigger: record.NewTrigger(*opt.When.internal(), opt.Recording.Kinds)}, nil
}

// FlightRecorder returns a FlightRecorder for the events of the session. Options that describe the program need not be set.
// The caller calls [FlightRecorder.Record] with the session.
func (s *Session) FlightRecorder(opt FlightOptions) (*FlightRecorder, error) {
	s.describe(&opt.Recording)
	return NewFlightRecorder(opt)
}

// An EventSource yields events until it is detached. A [Session] is one.
type EventSource interface {
	Events() iter.Seq[*event.Event]
	Detach() error
}

// checkInterval is how often conditions are checked while there are no events.
const checkInterval = 50 * time.Millisecond

// Record keeps the events of a source until they end, or until FlightOptions.After has passed after a condition held. Then
// it detaches the source and returns. [FlightRecorder.Take] still returns what was kept. Record is called once.
func (f *FlightRecorder) Record(source EventSource) error {
	var checks sync.WaitGroup
	done := make(chan struct{})
	checks.Go(func() { f.check(done, source) })
	defer checks.Wait()
	defer close(done)
	if s, ok := source.(*Session); ok {
		f.mu.Lock()
		f.names = s.names()
		f.mu.Unlock()
	}
	for e := range source.Events() {
		if over, err := f.add(e); err != nil {
			return err
		} else if over {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.settle(); err != nil {
		return err
	}
	return f.kept.Close()
}

// keep keeps an event, or holds it back until the names of tasks are known. The conditions do not wait for that. The caller holds the
// lock.
func (f *FlightRecorder) keep(e *event.Event) error {
	if f.names == nil {
		return f.kept.Write(e)
	}
	var err error
	f.names.Add(e, func(e *event.Event) bool {
		err = f.kept.Write(e)
		return err == nil
	})
	return err
}

// settle keeps the events that are held back. The caller holds the lock.
func (f *FlightRecorder) settle() error {
	if f.names == nil {
		return nil
	}
	var err error
	f.names.Flush(func(e *event.Event) bool {
		err = f.kept.Write(e)
		return err == nil
	})
	return err
}

// add adds an event and reports whether it was the last one.
func (f *FlightRecorder) add(e *event.Event) (over bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found.Met() && e.Time > f.until.UnixNano() {
		return true, nil
	}
	f.events++
	if err := f.keep(e); err != nil {
		return true, err
	}
	if f.opt.When.Any() && !f.found.Met() {
		f.meet(f.trigger.Next(e), time.Unix(0, e.Time))
	}
	return f.found.Met() && f.opt.After == 0 && e.Kind != event.GoStatus, nil
}

// meet notes that a condition held at a time, if it did. The caller holds the lock.
func (f *FlightRecorder) meet(found record.Finding, now time.Time) {
	if found.Met() {
		f.found, f.until = found, now.Add(f.opt.After)
	}
}

// check checks the conditions at intervals, and detaches the source at the end of the recording.
func (f *FlightRecorder) check(done <-chan struct{}, source EventSource) {
	if !f.opt.When.Any() {
		return
	}
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			f.mu.Lock()
			if !f.found.Met() {
				f.meet(f.trigger.Look(now), now)
			}
			over := f.found.Met() && now.After(f.until)
			f.mu.Unlock()
			if over {
				_ = source.Detach() // Close returns the error again
				return
			}
		}
	}
}

// Found returns the condition that held.
func (f *FlightRecorder) Found() Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Finding(f.found)
}

// Take returns the events that are kept now. Recording continues, and the Flight does not change.
func (f *FlightRecorder) Take() (*Flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.settle(); err != nil {
		return nil, err
	}
	stretch, err := f.kept.Take()
	if err != nil {
		return nil, err
	}
	return &Flight{From: stretch.From, To: stretch.To, Short: stretch.Short, Observed: f.events, stretch: stretch}, nil
}

// A Flight is the events that a [FlightRecorder] had kept at some moment.
type Flight struct {
	From, To time.Time // of the first and the last event
	Short    bool      // whether events of FlightOptions.MinAge were dropped because of MaxBytes
	Observed uint64    // events since the beginning of the recording, including those that were dropped

	stretch *record.Stretch
}

// Write writes the events to w in the given format; empty means FormatGo. It may be called more than once.
//
// The error is that of w, or reports that the format is unknown. Write does not close w.
func (f *Flight) Write(w io.Writer, format Format) (Recording, error) {
	row, err := format.find()
	if err != nil {
		return Recording{}, err
	}
	out := &counter{w: w}
	if err := f.stretch.Write(out, row); err != nil {
		return Recording{}, err
	}
	done := Recording{Bytes: out.n}
	done.Events, done.Goroutines, done.Alive, err = f.stretch.Count()
	return done, err
}

// find returns the row of a format of recordings.
func (f Format) find() (*export.Format, error) {
	return export.Formats().For(export.Record).Find(cmp.Or(string(f), export.Go))
}
