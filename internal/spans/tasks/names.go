package tasks

import (
	"iter"
	"sync"

	"github.com/loupe-go/loupe/event"
)

// Names gives tasks and regions their final names. A span gets its name when it begins, but the route of a request is known only when
// a router has found it, and some routers report it at their end. So Names holds events back from the begin of a task until its span
// has ended: at most one second, and at most 65,536 events. Then a task has the name that is known by that time; a message at its end
// has the final one.
//
// One goroutine calls the exported methods. The Recorder may be used by another one.
type Names struct {
	mu sync.Mutex // guards of
	of map[int64]*name

	queue []event.Event
	head  int // of queue
	now   int64
	log   event.Event
}

// A name is the name of a task whose end Names has not passed on.
type name struct {
	text  string
	final bool   // the span has ended
	given bool   // events have it
	was   string // given
	begun int    // task and regions, without those that have ended
}

// Limits of what Names holds back.
const (
	maxHeld = 1 << 16
	maxAge  = int64(1e9) // ns
)

func (n *Names) add(id int64, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[id] = &name{text: text}
}

func (n *Names) set(id int64, text string, final bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.of[id]; t != nil {
		t.text, t.final = text, final
	}
}

// Events returns an iterator over the events with their final names.
func (n *Names) Events(events iter.Seq[*event.Event]) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		for e := range events {
			if !n.Add(e, yield) {
				return
			}
		}
		n.Flush(yield)
	}
}

// Add passes on the events that need not be held any longer, in their order. It returns false if yield did.
func (n *Names) Add(e *event.Event, yield func(*event.Event) bool) bool {
	n.now = max(n.now, e.Time)
	if n.head == len(n.queue) && n.pass(e, false) {
		return n.yield(e, yield)
	}
	n.queue = append(n.queue, *e)
	return n.release(yield, false)
}

// Flush passes on all events that are held back. It returns false if yield did.
func (n *Names) Flush(yield func(*event.Event) bool) bool { return n.release(yield, true) }

func (n *Names) release(yield func(*event.Event) bool, all bool) bool {
	for n.head < len(n.queue) {
		e := &n.queue[n.head]
		if !n.pass(e, all || len(n.queue)-n.head > maxHeld || n.now-e.Time > maxAge) {
			break
		}
		n.head++
		if !n.yield(e, yield) {
			return false
		}
	}
	if n.head == len(n.queue) || n.head > maxHeld/4 && n.head > len(n.queue)/2 {
		rest := copy(n.queue, n.queue[n.head:])
		clear(n.queue[rest:]) // release the stacks
		n.queue, n.head = n.queue[:rest], 0
	}
	return true
}

// pass gives an event its name and reports whether that is final, or it is given because of force.
func (n *Names) pass(e *event.Event, force bool) bool {
	switch e.Kind {
	case event.UserTaskBegin, event.UserRegionBegin, event.UserRegionEnd:
	default:
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.of[e.Value]
	if t == nil {
		return true
	}
	if !t.given && !t.final && !force {
		return false
	}
	if !t.given {
		t.given, t.was = true, t.text
	}
	e.Text = t.was
	return true
}

// yield passes on an event. The end of a task follows its final name, if the task has begun with another one.
func (n *Names) yield(e *event.Event, yield func(*event.Event) bool) bool {
	switch e.Kind {
	case event.UserTaskBegin, event.UserRegionBegin:
		n.count(e.Value, 1)
	case event.UserRegionEnd:
		n.count(e.Value, -1)
	case event.UserTaskEnd:
		if text, changed := n.changed(e.Value); changed {
			n.log = *e
			n.log.Kind, n.log.Reason, n.log.Text = event.UserLog, CategoryName, text
			if !yield(&n.log) {
				return false
			}
		}
		n.count(e.Value, -1)
	}
	return yield(e)
}

// changed returns the final name of a task, and whether its events have another one.
func (n *Names) changed(id int64) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.of[id]
	return textOf(t), t != nil && t.text != t.was
}

func textOf(t *name) string {
	if t == nil {
		return ""
	}
	return t.text
}

// count notes that a task or region has begun or ended. The name is forgotten with the last of them.
func (n *Names) count(id int64, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.of[id]
	if t == nil {
		return
	}
	if t.begun += by; t.begun == 0 {
		delete(n.of, id)
	}
}
