package stream

import (
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
)

// A Merger merges the events of a stream with samples that another goroutine takes, in the order of their times. One goroutine
// calls Add and End, one AddSample, and one Each.
type Merger struct {
	mu      sync.Mutex // guards the fields below
	events  []event.Event
	samples []event.Event
	ended   bool
	stopped bool

	more chan struct{} // an event or a sample was added, or End was called
	room chan struct{} // events were taken, or Stop was called
}

const (
	mergerEvents = 1 << 14 // events that Add accepts before Each takes them

	// sampleDelay is the time for which a sample waits for earlier events. It exceeds the time that an event takes to arrive.
	sampleDelay = 50 * time.Millisecond
)

// NewMerger returns a Merger without events.
func NewMerger() *Merger {
	return &Merger{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Add adds the next event of the stream. It blocks if Each is far behind. The result is false if Stop was called.
func (m *Merger) Add(e *event.Event) bool {
	for {
		m.mu.Lock()
		n, stopped := len(m.events), m.stopped
		if !stopped && n < mergerEvents {
			m.events = append(m.events, *e)
		}
		m.mu.Unlock()
		switch {
		case stopped:
			return false
		case n == 0:
			signal(m.more)
		}
		if n < mergerEvents {
			return true
		}
		<-m.room
	}
}

// AddSample adds a sample, which is later than those before.
func (m *Merger) AddSample(e *event.Event) {
	m.mu.Lock()
	m.samples = append(m.samples, *e)
	m.mu.Unlock()
	signal(m.more)
}

// End reports that the stream has ended.
func (m *Merger) End() {
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	signal(m.more)
}

// Stop makes Add return false from now on.
func (m *Merger) Stop() {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	signal(m.room)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Each passes the events and the samples to yield until the stream has ended, or until yield returns false. It returns false in the
// latter case. A sample is passed before the first later event, or 50 ms after it was taken if no later event has come.
func (m *Merger) Each(yield func(*event.Event) bool) bool {
	var batch, held []event.Event
	for {
		m.mu.Lock()
		batch, m.events = m.events, batch[:0]
		held, m.samples = append(held, m.samples...), m.samples[:0]
		ended := m.ended
		m.mu.Unlock()
		signal(m.room)
		for i := range batch {
			for len(held) > 0 && held[0].Time <= batch[i].Time {
				if !yield(&held[0]) {
					return false
				}
				held = held[1:]
			}
			if !yield(&batch[i]) {
				return false
			}
		}
		due := time.Now().Add(-sampleDelay).UnixNano()
		for len(held) > 0 && (ended || held[0].Time <= due) {
			if !yield(&held[0]) {
				return false
			}
			held = held[1:]
		}
		if ended {
			return true
		}
		clear(batch) // release the stacks and origins
		m.wait(held)
	}
}

// wait waits for events and samples. If samples are held, it waits at most until the first of them is due.
func (m *Merger) wait(held []event.Event) {
	if len(held) == 0 {
		<-m.more
		return
	}
	timer := time.NewTimer(time.Until(time.Unix(0, held[0].Time).Add(sampleDelay)))
	defer timer.Stop()
	select {
	case <-m.more:
	case <-timer.C:
	}
}
