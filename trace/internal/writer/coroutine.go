package writer

import "github.com/loupe-go/loupe/event"

// coroutine is the runtime's reason of a wait that begins with another coroutine's run.
const coroutine = "coroutine"

// mayHandOver reports whether an event can be the first of a coroutine that hands over to another: it waits or ends, the
// other is made runnable by it, and starts. A trace wants the second one first, while the goroutine that does it runs.
func mayHandOver(e *event.Event) bool {
	return e.Kind == event.GoBlock && e.WaitReason() == coroutine || e.Kind == event.GoDestroy
}

// arrange passes events to take, in the order that a trace wants.
func (w *Writer) arrange(e *event.Event) {
	if w.holding {
		first := w.held
		w.holding = false
		if e.Kind == event.GoUnblock && e.By == first.G && e.TID == first.TID {
			w.accept(e)
			w.accept(&first)
			return
		}
		w.accept(&first)
	}
	if mayHandOver(e) {
		w.held, w.holding = *e, true
		return
	}
	w.accept(e)
}

// letGo takes the event that is held back.
func (w *Writer) letGo() {
	if w.holding {
		w.holding = false
		w.accept(&w.held)
	}
}
