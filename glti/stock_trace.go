package glti

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Releases of Go whose execution traces this package reads: 1.22 to 1.27.
const (
	firstTraceRelease = 22
	lastTraceRelease  = 27
)

// maxQueued is the size of the generations that wait for slow callbacks. Further ones are lost.
const maxQueued = 2 * maxGenerationSize

// retryAfter is the time after which a trace that the application's own prevented is tried again.
const retryAfter = time.Second

// tracer runs an execution trace of the program as long as events are enabled, and delivers its events.
type tracer struct {
	mu       sync.Mutex
	enabled  int           // events
	running  bool          // a goroutine runs loop
	tried    bool          // loop has tried to start a trace
	wake     chan struct{} // receives if enabled changed, or somebody waits
	pending  []*description
	queue    *generationQueue
	queued   uint64 // generations put into the queue, or lost, in this session
	handled  uint64 // of these, delivered
	session  uint64 // counts the runs of loop
	flushes  uint64 // calls of flush
	flushed  uint64 // of these, those whose events are in the queue
	progress *sync.Cond
	failed   error // why traces cannot be read
}

// description is a callback that waits for what exists at its registration.
type description struct {
	event Event
	since int64
	call  func(Record)
}

// traceSource starts and stops an execution trace that is written to a splitter.
type traceSource interface {
	// start returns an error if the application has a trace of its own.
	start(s *splitter) error
	stop()
	// poll writes what has happened to the splitter. It is called every pollEvery, if that is not 0. For flush, exact is set: then
	// poll writes all events that happened before.
	poll(s *splitter, exact bool) error
	pollEvery() time.Duration
}

func newTracer() *tracer {
	t := &tracer{wake: make(chan struct{}, 1)}
	t.progress = sync.NewCond(&t.mu)
	return t
}

// traceable returns why the execution traces of a Go release cannot be read, "" if they can.
func traceable(version string) string {
	release, ok := strings.CutPrefix(version, "go1.")
	if !ok {
		return "" // of a development version: the header of its trace shows whether it can be read
	}
	digits := 0
	for digits < len(release) && '0' <= release[digits] && release[digits] <= '9' {
		digits++
	}
	minor, err := strconv.Atoi(release[:digits])
	if err == nil && firstTraceRelease <= minor && minor <= lastTraceRelease {
		return ""
	}
	return fmt.Sprintf("this package reads the execution traces of Go 1.%d to 1.%d, not those of %s", firstTraceRelease, lastTraceRelease, version)
}

func (s *stock) enable(ev Event) error {
	if c := s.capability(Capability{Method: ev.method()}); !c.Available {
		return c.err()
	}
	return s.trace.enable()
}

func (s *stock) disable(Event) { s.trace.disable() }

func (s *stock) describe(ev Event, call func(Record)) {
	s.trace.describe(&description{event: ev, since: Now(), call: call})
}

func (s *stock) flush() { s.trace.flush() }

// enable returns when a trace runs, or could not start because of the application's.
func (t *tracer) enable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	t.enabled++
	if !t.running {
		t.running, t.tried = true, false
		t.session++
		t.queued, t.handled = 0, 0
		t.queue = newGenerationQueue()
		go t.drain(t.queue, newTraceModel(deliver))
		go t.loop(newTraceSource())
	}
	t.signal()
	for t.running && !t.tried {
		t.progress.Wait()
	}
	if t.failed != nil {
		t.enabled--
	}
	return t.failed
}

func (t *tracer) disable() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enabled--
	t.signal()
}

func (t *tracer) describe(d *description) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running {
		t.pending = append(t.pending, d)
	}
}

// signal wakes the loop.
func (t *tracer) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// loop runs a trace until no event is enabled.
func (t *tracer) loop(source traceSource) {
	ownGoroutines.enter()
	defer ownGoroutines.leave()
	s := &splitter{done: t.enqueue}
	active := false
	for {
		if !t.wanted(s) {
			if active {
				source.stop()
				active = false
			}
			if t.end() {
				return
			}
			continue
		}
		if !active {
			*s = splitter{done: t.enqueue}
			active = source.start(s) == nil
			t.setTried()
		}
		every := source.pollEvery()
		if !active {
			every = retryAfter
		}
		t.wait(every)
		flushes, exact := t.flushWanted()
		if active && source.poll(s, exact) != nil {
			source.stop()
			active = false
		}
		t.setFlushed(flushes)
	}
}

// setTried makes enable return.
func (t *tracer) setTried() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried = true
	t.progress.Broadcast()
}

// flushWanted returns the number of calls of flush, and whether one waits.
func (t *tracer) flushWanted() (calls uint64, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.flushes, t.flushes > t.flushed
}

// setFlushed makes calls of flush wait for what is in the queue.
func (t *tracer) setFlushed(calls uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushed = calls
	t.progress.Broadcast()
}

// wait waits for a signal, or the time if it is not 0.
func (t *tracer) wait(every time.Duration) {
	if every == 0 {
		<-t.wake
		return
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	select {
	case <-t.wake:
	case <-timer.C:
	}
}

// wanted reports whether a trace is to run.
func (t *tracer) wanted(s *splitter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.error(); err != nil && t.failed == nil {
		t.failed = err
		go report(Report{Err: fmt.Errorf("no more events: %w", err)})
	}
	if t.enabled > 0 && t.failed == nil {
		return true
	}
	t.tried = false // the trace ends: an event that is enabled now waits for the next
	return false
}

// end ends the session, unless an event was enabled meanwhile.
func (t *tracer) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.enabled > 0 && t.failed == nil {
		return false
	}
	t.running = false
	t.pending = nil
	t.queue.close()
	t.queue = nil
	t.session++
	t.progress.Broadcast()
	return true
}

// enqueue passes a complete generation to the goroutine that delivers. It is called by the runtime's trace reader, and does not
// block.
func (t *tracer) enqueue(g *generation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue == nil {
		return
	}
	t.queued++
	if t.queue.put(g) {
		return
	}
	t.handled++
	n := g.lost
	for _, b := range g.batches {
		n += countEvents(b.data)
	}
	go lost(n)
}

// drain delivers the events of generations until the queue is closed.
func (t *tracer) drain(queue *generationQueue, model *traceModel) {
	ownGoroutines.enter()
	defer ownGoroutines.leave()
	finished := false
	defer func() {
		if !finished { // a callback ended the goroutine
			report(Report{Err: errors.New("events lost: a callback ended the goroutine that calls callbacks")})
			t.done()
			go t.drain(queue, model)
		}
	}()
	for g := queue.take(); g != nil; g = queue.take() {
		t.deliver(g, model)
		t.done()
	}
	finished = true
}

// deliver delivers the events of a generation.
func (t *tracer) deliver(g *generation, model *traceModel) {
	ownGoroutines.mark(model)
	if g.missed > 0 {
		report(Report{Err: fmt.Errorf("events lost: the recorder has dropped %d of the trace's generations", g.missed)})
	}
	waiting := t.describable(g)
	err := model.convert(g, func(r Record) {
		for _, d := range waiting {
			if d.event == r.Event {
				r.Time = max(model.begin, d.since)
				d.call(r)
			}
		}
	})
	if err != nil {
		report(Report{Err: err})
	}
	if model.lost > 0 {
		lost(model.lost)
		model.lost = 0
	}
}

// done counts a generation as handled.
func (t *tracer) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handled++
	t.progress.Broadcast()
}

// describable returns the callbacks that were waiting when a generation began.
func (t *tracer) describable(g *generation) (waiting []*description) {
	clock, err := g.readClock()
	if err != nil {
		return nil
	}
	begin := int64(0)
	for _, b := range g.batches {
		if time := clock.time(b.time); begin == 0 || time < begin {
			begin = time
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var later []*description
	for _, d := range t.pending {
		if d.since <= begin {
			waiting = append(waiting, d)
		} else {
			later = append(later, d)
		}
	}
	t.pending = later
	return waiting
}

// flush returns when the events that happened before have been delivered, or tracing has ended.
func (t *tracer) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushes++
	session, call := t.session, t.flushes
	t.signal()
	for t.running && t.session == session && t.flushed < call {
		t.progress.Wait()
	}
	until := t.queued
	for t.running && t.session == session && t.handled < until {
		t.progress.Wait()
	}
}

// traceCapability returns the capability of the method of an event.
func traceCapability(ev Event) Capability {
	switch {
	case events[ev].never:
		return Capability{Available: true, Class: ClassC, Limits: "no supported Go release has the event"}
	case traceable(runtime.Version()) != "":
		return Capability{Why: traceable(runtime.Version())}
	}
	c := Capability{Available: true, Class: ClassC, Limits: traceLimits}
	if runtime.GOOS == "windows" {
		c.Limits += "; before Go 1.25, times are not those of Now"
	}
	return c
}
