package tracetruth

import (
	"maps"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// Events returns what an observer reports who sees everything that is in the trace, as Loupe would put it; of the steps
// that Loupe need not see, every other one. kinds is as in Options. offset is added to CLOCK_MONOTONIC. It is what the comparison itself is tested
// with.
func (t *Trace) Events(kinds event.Kinds, offset int64) []event.Event {
	o := observer{t: t, offset: offset, origins: make(map[string]*event.Origin)}
	for _, g := range slices.Sorted(maps.Keys(t.initial)) {
		ev := event.Event{Time: t.start + offset, Kind: event.GoStatus, G: g, State: t.initial[g]}
		if ev.State == event.StateWaiting {
			ev.Reason = o.firstWait(g)
		}
		o.events = append(o.events, ev)
	}
	records := t.canonical(kinds, make(RuleCounts))
	for i := range records {
		if r := &records[i]; !r.optional || r.Index%2 == 0 {
			o.add(r)
		}
	}
	return o.events
}

// observer converts records to events.
type observer struct {
	t       *Trace
	offset  int64
	origins map[string]*event.Origin
	events  []event.Event
}

// firstWait returns a reason for the wait of a goroutine at the start of the trace, which the trace does not contain: one
// that is consistent with its waker.
func (o *observer) firstWait(g uint64) string {
	for i := range o.t.Records {
		r := &o.t.Records[i]
		if r.G == g && r.Kind == event.GoUnblock {
			if len(r.Stack) > 0 && !isRuntime(r.Stack[0].Func) || r.within("runtime.chan") || r.within("runtime.select") {
				return "chan receive"
			}
			return "IO wait"
		}
	}
	return "chan receive"
}

func (o *observer) add(r *Record) {
	ev := event.Event{Time: r.Time + o.offset, Kind: r.Kind, G: r.G, Stack: eventStack(r.Stack)}
	switch r.Kind {
	case event.GoCreate:
		ev.Parent, ev.Origin = r.By, o.origin(r.Start)
		if r.Waiting {
			ev.State = event.StateWaiting
		}
	case event.GoUnblock:
		ev.By = r.By
	case event.GoStop, event.STWBegin:
		ev.Reason = r.TraceReason
	case event.GoBlock:
		ev.Reason, ev.TraceReason = waitCoroutine, ""
		if r.Switch {
			break
		}
		if ev.Reason = waitAt(r, o.t.Release); ev.Reason == "" {
			ev.Reason, _ = waitReason(r.TraceReason, o.t.Release)
		}
		if o.t.Release >= minorTraceV2 {
			ev.TraceReason = r.TraceReason
		}
	}
	o.events = append(o.events, ev)
}

func (o *observer) origin(start string) *event.Origin {
	if o.origins[start] == nil {
		o.origins[start] = &event.Origin{
			Start: event.Frame{Func: start}, System: strings.HasPrefix(start, "runtime."),
		}
	}
	return o.origins[start]
}

func eventStack(frames []Frame) *event.Stack {
	if len(frames) == 0 {
		return nil
	}
	s := &event.Stack{}
	for _, f := range frames {
		s.Frames = append(s.Frames, event.Frame{Func: f.Func, Line: f.Line})
	}
	return s
}
