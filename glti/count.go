package glti

import (
	"fmt"
	"sync"
)

// An EventCounter counts the events of a kind. See [TracingEnv.CountEvent].
type EventCounter struct {
	event Event
	began uint64 // the count of the runtime when the counter began

	mu    sync.Mutex // guards what follows
	ended bool
	last  uint64 // what it had counted when it ended
}

// eventCounting has the number of counters of each event.
var eventCounting struct {
	sync.Mutex
	counters [endEvent]int
}

// CountEvent begins to count the events of a kind. No callback is called, and no time is read, so that counting costs the program a few
// nanoseconds an event, much less than a callback that counts. The events are those for which callbacks are called, except that a wait counts
// when it begins. There are no counters for the states GoWaiting and GoInSyscall, for strings and annotations, and for the variants Local and
// Label of events.
//
// CountEvent returns an error that wraps [ErrNotBuilt] in a stock program.
func (env *TracingEnv) CountEvent(ev Event) (*EventCounter, error) {
	switch {
	case env.agent == nil || env.agent.isClosed():
		return nil, ErrClosed
	case !ev.valid():
		return nil, fmt.Errorf("glti: CountEvent: unknown event %d", ev)
	}
	c := &EventCounter{event: ev}
	if err := c.begin(); err != nil {
		return nil, err
	}
	env.agent.onClose(c.Unregister)
	return c, nil
}

func (c *EventCounter) begin() error {
	e := &eventCounting
	e.Lock()
	defer e.Unlock()
	if e.counters[c.event] == 0 {
		if err := impl.countEvent(c.event, true); err != nil {
			return err
		}
	}
	e.counters[c.event]++
	c.began = impl.counted(c.event)
	return nil
}

// Count returns the number of events since CountEvent was called, until Unregister was.
func (c *EventCounter) Count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return c.last
	}
	return impl.counted(c.event) - c.began
}

// Unregister ends the counter. Calling it again has no effect.
func (c *EventCounter) Unregister() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.last, c.ended = impl.counted(c.event)-c.began, true
	e := &eventCounting
	e.Lock()
	defer e.Unlock()
	if e.counters[c.event]--; e.counters[c.event] == 0 {
		impl.countEvent(c.event, false)
	}
}
