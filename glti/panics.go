package glti

import (
	"slices"
	"sync"
)

// panicHandler is a callback for unhandled panics.
type panicHandler struct {
	callback
	call func(any)
}

var panicHandlers struct {
	sync.Mutex
	list   []*panicHandler
	hooked bool
}

// addPanicHandler registers a callback for unhandled panics until its agent is closed.
func addPanicHandler(h *panicHandler) error {
	panicHandlers.Lock()
	defer panicHandlers.Unlock()
	if h.agent.slot < 0 || h.agent.isClosed() {
		return ErrClosed
	}
	if !panicHandlers.hooked {
		if err := impl.onPanic(unhandledPanic); err != nil {
			return err
		}
		panicHandlers.hooked = true
	}
	panicHandlers.list = append(slices.Clip(panicHandlers.list), h)
	h.agent.onClose(func() { h.removed.Store(true) })
	return nil
}

// unhandledPanic calls the callbacks for a panic that ends the program.
func unhandledPanic(value any) {
	panicHandlers.Lock()
	list := panicHandlers.list
	panicHandlers.Unlock()
	for _, h := range list {
		h.run(func() { h.call(value) })
	}
}
