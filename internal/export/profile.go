package export

import (
	"fmt"
	"io"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/sched"
)

// The types of profile that are only available for traces, in addition to those of package stream.
const (
	goroutineProfile = "goroutine" // goroutines that are alive at the end, by their last stack
	cpuProfile       = "cpu"       // samples of the CPU profiler
)

// ProfileTypes lists the types of profile.
func ProfileTypes() []string {
	var names []string
	for _, t := range stream.ProfileTypes() {
		names = append(names, t.Name)
	}
	return append(names, goroutineProfile, cpuProfile)
}

// HasReasons reports whether a type of profile counts waits, which can be selected by reason.
func HasReasons(profile string) bool {
	t, ok := stream.ProfileTypeOf(profile)
	return ok && t.Waits != nil
}

// profileSink computes a profile of events, which it writes when it is closed.
type profileSink struct {
	w   io.Writer
	opt Options

	add   func(*event.Event)
	build func(began time.Time, length time.Duration) *pprof.Builder

	begun       bool
	first, last int64
	lost        int64
	counted     uint64
	distinct    int
}

func newProfileSink(w io.Writer, opt Options) (*profileSink, error) {
	s := &profileSink{w: w, opt: opt}
	kind, ok := stream.ProfileTypeOf(opt.Profile)
	switch {
	case ok:
		s.ofEvents(kind)
	case opt.Profile == goroutineProfile:
		s.ofGoroutines()
	case opt.Profile == cpuProfile:
		s.ofSamples()
	default:
		return nil, fmt.Errorf("unknown profile type %q", opt.Profile)
	}
	return s, nil
}

// ofEvents makes it a profile of package stream.
func (s *profileSink) ofEvents(kind stream.ProfileType) {
	if kind.Kinds.Has(event.GoStart) {
		kind.Kinds = kind.Kinds.Union(event.KindsSyscall) // after which goroutines also wait for a processor
	}
	prof := stream.NewProfile(kind, s.opt.Reasons)
	s.add = func(e *event.Event) {
		if e.WaitReason() == tracerSync {
			wait := *e
			wait.Reason = gostate.Semacquire
			e = &wait
		}
		prof.Add(e)
	}
	s.build = func(began time.Time, length time.Duration) *pprof.Builder {
		doc := prof.Build(began, length)
		s.counted = doc.Counted
		return doc.Builder
	}
}

// If the runtime's own reason cannot be derived from the stack, the tracer's reason "sync" means a wait for a
// semaphore, in releases without separate reasons for locks or groups.
const tracerSync = "sync"

// ofGoroutines makes it a profile of the goroutines that are alive at the end.
func (s *profileSink) ofGoroutines() {
	machine := sched.New(sched.Options{Kinds: event.KindsTrace})
	s.add = machine.Apply
	s.build = func(began time.Time, length time.Duration) *pprof.Builder {
		b := pprof.NewBuilder(began.Add(length), pprof.Mapping{}, pprof.ValueType{Type: "goroutine", Unit: "count"},
			pprof.ValueType{Type: "wait", Unit: "nanoseconds"})
		now := machine.Totals().Now
		machine.Goroutines(sched.Filter{Match: func(g *sched.Goroutine) bool {
			if g.Origin == nil && stream.IsSystem(g.Stack) {
				return false
			}
			var wait time.Duration
			if g.State == event.StateWaiting {
				wait = g.InState(now)
			}
			labels := map[string]string{}
			if g.State != "" {
				labels["state"] = string(g.State)
			}
			if g.State == event.StateWaiting && g.Reason != "" {
				labels["reason"] = g.Reason
			}
			b.Add(goroutineStack(g), labels, 1, int64(wait))
			s.counted++
			return false // nothing is kept
		}}, sched.ByID, 0)
		return b
	}
}

// goroutineStack returns the last stack of a goroutine, or its start function if it has no stack yet.
func goroutineStack(g *sched.Goroutine) []pprof.Location {
	switch {
	case g.Stack != nil && len(g.Stack.Frames) > 0:
		return locations(g.Stack)
	case g.Origin != nil && !g.Origin.Start.IsZero():
		return []pprof.Location{{Lines: []event.Frame{g.Origin.Start}}}
	}
	return unknownStack
}

var unknownStack = []pprof.Location{{Lines: []event.Frame{{Func: "(stack not recorded)"}}}}

func locations(stack *event.Stack) []pprof.Location {
	list := make([]pprof.Location, len(stack.Frames))
	for i := range stack.Frames {
		list[i].Lines = stack.Frames[i : i+1]
	}
	return list
}

// ofSamples makes it a profile of samples of the CPU profiler. A trace does not contain the time between two samples.
func (s *profileSink) ofSamples() {
	samples := map[*event.Stack]int64{}
	var order []*event.Stack // in their original order, so that the same trace results in the same profile
	s.add = func(e *event.Event) {
		if e.Kind != event.CPUSample {
			return
		}
		if samples[e.Stack] == 0 {
			order = append(order, e.Stack)
		}
		samples[e.Stack]++
		s.counted++
	}
	s.build = func(began time.Time, length time.Duration) *pprof.Builder {
		b := pprof.NewBuilder(began, pprof.Mapping{}, pprof.ValueType{Type: "samples", Unit: "count"})
		b.Lasted(length)
		for _, stack := range order {
			where := unknownStack
			if stack != nil && len(stack.Frames) > 0 {
				where = locations(stack)
			}
			b.Add(where, nil, samples[stack])
		}
		return b
	}
}

// Write implements Sink.
func (s *profileSink) Write(e *event.Event) error {
	if !s.begun {
		s.begun, s.first = true, e.Time
	}
	s.last = e.Time
	if e.Kind == event.Lost {
		s.lost += e.Missing()
	}
	s.add(e)
	return nil
}

// Close implements Sink.
func (s *profileSink) Close() error {
	began := time.Unix(0, 0) // which the format interprets as no value
	if s.opt.Wall {
		began = time.Unix(0, s.first)
	}
	b := s.build(began, time.Duration(s.last-s.first))
	b.Comment(fmt.Sprintf("%s profile by Loupe, from an execution trace in the format of %s", s.opt.Profile, s.opt.Version))
	if s.lost > 0 {
		b.Comment(fmt.Sprintf("events missing according to the trace: %d", s.lost))
	}
	s.distinct = b.Samples()
	return b.Write(s.w)
}

// Notes implements Noter. It reports what was counted.
func (s *profileSink) Notes() []string {
	var notes []string
	switch {
	case s.counted > 0:
		notes = append(notes, fmt.Sprintf("%d counted in %s", s.counted, english.Count(s.distinct, "distinct stack")))
	case s.opt.Profile == cpuProfile:
		notes = append(notes, "the trace has no CPU profile samples: it has them only if a CPU profile was recorded at the same time")
	default:
		notes = append(notes, "the profile is empty: the trace contains nothing to count")
	}
	return notes
}
