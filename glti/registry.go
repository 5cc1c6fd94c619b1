package glti

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// callback is a registered callback of an agent.
type callback struct {
	agent   *agent
	method  string
	removed atomic.Bool
}

// run calls f, unless the callback was removed. If f panics or ends the goroutine, it disables and reports the callback.
func (c *callback) run(f func()) {
	if c.removed.Load() {
		return
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		value := recover() // nil after runtime.Goexit
		if !c.removed.CompareAndSwap(false, true) {
			return // another call panicked before
		}
		if value == nil {
			value = "runtime.Goexit, which ends its goroutine"
		}
		report(Report{Agent: c.agent.name, Method: c.method, Err: &PanicError{Value: value, Stack: debug.Stack()}})
	}()
	f()
	returned = true
}

// handler is a callback for events.
type handler struct {
	callback
	event Event
	call  func(Record)
}

func (h *handler) deliver(r Record) {
	h.run(func() { h.call(r) })
}

// handlers are the callbacks of each event. Delivery reads the lists without a lock; a change replaces a list.
type handlers struct {
	mu    sync.Mutex // held to change lists
	lists [endEvent]atomic.Pointer[[]*handler]
}

var registered handlers

// deliver calls the callbacks of an event in the order of their registration. The documentation of hooks states who calls it.
func deliver(r Record) {
	list := registered.lists[r.Event].Load()
	if list == nil {
		return
	}
	for _, h := range *list {
		h.deliver(r)
	}
}

// add registers a callback, and enables the event if it is its first.
func (s *handlers) add(h *handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.agent.isClosed() {
		return ErrClosed
	}
	old := s.get(h.event)
	if len(old) == 0 && !events[h.event].never {
		if err := impl.enable(h.event); err != nil {
			return err
		}
	}
	s.set(h.event, append(slices.Clip(old), h))
	return nil
}

// remove removes the callbacks for which match returns true, and disables events that have no more.
func (s *handlers) remove(match func(*handler) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ev := firstEvent; ev < endEvent; ev++ {
		old := s.get(ev)
		kept := make([]*handler, 0, len(old))
		for _, h := range old {
			if match(h) {
				h.removed.Store(true)
			} else {
				kept = append(kept, h)
			}
		}
		if len(kept) == len(old) {
			continue
		}
		s.set(ev, kept)
		if len(kept) == 0 && !events[ev].never {
			impl.disable(ev)
		}
	}
}

func (s *handlers) get(ev Event) []*handler {
	if list := s.lists[ev].Load(); list != nil {
		return *list
	}
	return nil
}

func (s *handlers) set(ev Event, list []*handler) {
	if len(list) == 0 {
		s.lists[ev].Store(nil)
		return
	}
	s.lists[ev].Store(&list)
}

// Registration is a registered callback.
type Registration struct {
	remove func()
	once   sync.Once
}

// Unregister removes the callback. No event that happens after Unregister returned is delivered to it. A call that has begun
// continues: Unregister does not wait for it, so a callback may unregister itself. Calling Unregister again has no effect.
func (r *Registration) Unregister() {
	r.once.Do(r.remove)
}

var errNilCallback = errors.New("the callback is nil")

// register registers a callback for an event.
func (env *TracingEnv) register(ev Event, method string, call func(Record)) (*Registration, error) {
	if env.agent == nil {
		return nil, ErrClosed
	}
	h := &handler{callback: callback{agent: env.agent, method: method}, event: ev, call: call}
	if err := registered.add(h); err != nil {
		return nil, err
	}
	if events[ev].atRegistration {
		impl.describe(ev, h.deliver)
	}
	return &Registration{remove: func() {
		registered.remove(func(other *handler) bool { return other == h })
	}}, nil
}

// Handle registers a callback for an event, which receives all that is known about it. Its class is that of the event's Register
// method. Handle returns an error that wraps [ErrUnavailable] if the event is unavailable in this program.
func (env *TracingEnv) Handle(ev Event, cb func(Record)) (*Registration, error) {
	switch {
	case !ev.valid():
		return nil, fmt.Errorf("glti: Handle: unknown event %d", ev)
	case cb == nil:
		return nil, fmt.Errorf("glti: Handle: %s: %w", ev, errNilCallback)
	}
	return env.register(ev, ev.method(), cb)
}

// HandleRaw registers a raw callback, which is called synchronously inside the scheduler, on a stack of the runtime, at the exact moment of
// the event. There are raw callbacks for the events of class B, and for GoBlock* and GoSleep, whose begin they report. Up to 16 can be
// registered.
//
// The callback must not call any function. In practice it writes numbers to global variables: a counter that several threads increment
// is changed by [sync/atomic.AddUint64] and the like, which the compiler makes one instruction. HandleRaw reads the machine code of the
// callback and returns an error that names the line if there is a call. The compiler also makes calls to allocate, to check an index or
// a divisor, to write a pointer, to panic, and to grow the stack; with -race or -cover it adds calls (//go:norace prevents those of
// -race, for which sync/atomic is no single instruction). So a registered callback cannot allocate, lock, block or panic. It can
// still end the program by using an invalid address, and stop it by an endless loop. HandleRaw also refuses code that has an instruction
// which it does not know.
//
// The callback may still be called for a moment after Unregister returned. What it refers to is never freed.
//
// HandleRaw returns an error that wraps [ErrNotBuilt] in a stock program.
func (env *TracingEnv) HandleRaw(ev Event, cb func(*RawRecord)) (*Registration, error) {
	switch {
	case env.agent == nil || env.agent.isClosed():
		return nil, ErrClosed
	case !ev.valid():
		return nil, fmt.Errorf("glti: HandleRaw: unknown event %d", ev)
	case cb == nil:
		return nil, fmt.Errorf("glti: HandleRaw: %s: %w", ev, errNilCallback)
	}
	remove, err := impl.enableRaw(ev, cb)
	if err != nil {
		return nil, err
	}
	r := &Registration{remove: remove}
	env.agent.onClose(r.Unregister)
	return r, nil
}

// Unregister removes all callbacks that the agent has registered for an event, except raw ones.
func (env *TracingEnv) Unregister(ev Event) {
	registered.remove(func(h *handler) bool { return h.event == ev && h.agent == env.agent })
}

// Flush returns when the events that happened before the call have been delivered to the callbacks of class C, or no more can be. A
// callback must not call Flush.
func (env *TracingEnv) Flush() { impl.flush() }
