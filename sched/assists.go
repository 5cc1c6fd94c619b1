package sched

import "github.com/loupe-go/loupe/event"

// assists are the mark assists in progress, by goroutine. They are few, so they are not part of the entries of all goroutines.
type assists map[uint64]assist

// assist is a mark assist in progress. In execution traces it can contain waits, during which the goroutine does not mark.
type assist struct {
	since  int64 // when it began or the goroutine last started to run
	paused bool  // the goroutine does not run
}

// apply applies an event of a goroutine. It returns the time that the goroutine has marked, if the event ends such a time.
func (a assists) apply(e *event.Event, t int64) int64 {
	if e.Kind == event.GCMarkAssistBegin {
		a[e.G] = assist{since: t}
		return 0
	}
	was, ok := a[e.G]
	if !ok {
		return 0
	}
	marked := max(t-was.since, 0)
	if was.paused {
		marked = 0
	}
	switch e.Kind {
	case event.GoStop, event.GoBlock:
		a[e.G] = assist{paused: true}
	case event.GoStart:
		a[e.G] = assist{since: t}
		return 0
	case event.GCMarkAssistEnd, event.GoDestroy:
		delete(a, e.G)
	default:
		return 0
	}
	return marked
}
