//go:build loupe_glti

package glti

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// rawEvents are the events for which there are raw callbacks: those of class B, and the begins of waits.
var rawEvents = []Event{EvGoStart, EvGoStop, EvGoPreempt, EvGoSleep, EvGoBlock, EvGoBlockSend, EvGoBlockRecv, EvGoBlockSelect, EvGoBlockSync,
	EvGoBlockCond, EvGoBlockNet, EvGoSysCall, EvGoSysExit, EvGoBlockGC}

// rtRaw is runtime.gltiRaw.
type rtRaw struct {
	event uint8
	call  func(*RawRecord)
}

// rt_raw sets a callback, or removes it if it is nil, and selects the events that have one.
func rt_raw(at int, callback unsafe.Pointer, mask uint64)

// raws are the raw callbacks. Those that were removed are kept, because a thread that the garbage collector does not stop may be in
// one: the runtime may call it for a moment after it was removed.
var raws struct {
	sync.Mutex
	list [16]*rtRaw // as in the runtime
	kept []*rtRaw
}

func (*overlay) enableRaw(ev Event, cb func(*RawRecord)) (remove func(), err error) {
	if !slices.Contains(rawEvents, ev) {
		return nil, fmt.Errorf("glti: HandleRaw: %s is %w: it has no raw callbacks", ev, ErrUnavailable)
	}
	if err := checkRaw(cb); err != nil {
		return nil, fmt.Errorf("glti: HandleRaw: %s: %w", ev, err)
	}
	raws.Lock()
	defer raws.Unlock()
	at := slices.Index(raws.list[:], nil)
	if at < 0 {
		return nil, fmt.Errorf("glti: HandleRaw: %s: all raw callbacks are in use; unregister one", ev)
	}
	raw := &rtRaw{uint8(ev), cb}
	raws.kept = append(raws.kept, raw)
	setRaw(at, raw)
	return func() {
		raws.Lock()
		defer raws.Unlock()
		setRaw(at, nil)
	}, nil
}

// setRaw sets a raw callback. raws is locked.
func setRaw(at int, raw *rtRaw) {
	raws.list[at] = raw
	mask := uint64(0)
	for _, r := range raws.list {
		if r != nil {
			mask |= 1 << r.event
		}
	}
	rt_raw(at, unsafe.Pointer(raw), mask)
}
