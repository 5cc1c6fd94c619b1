package gostate

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// TestTotal asks for every kind and state: each has an answer, and the answers agree.
func TestTotal(t *testing.T) {
	for _, kind := range event.KindsAll.List() {
		stateful := event.KindsGoroutine.Union(event.KindsSyscall, event.KindsChannel, event.KindsLock, event.KindsOf(event.GCMarkAssistBegin, event.GCMarkAssistEnd)).Has(kind)
		if About(kind) != stateful {
			t.Errorf("%v is about a goroutine's state: %v", kind, About(kind))
		}
		fitting := 0
		for s := Unknown; s < NumStates; s++ {
			switch fit := FitOf(kind, s); {
			case (s == Unknown || Before(kind) == Unknown) != (fit == Unsure):
				t.Errorf("%v after %q: %d", kind, s.Name(), fit)
			case s == Before(kind) && fit != Fits && s != Unknown:
				t.Errorf("%v ends %q, but does not fit it", kind, s.Name())
			case fit == Fits:
				fitting++
			}
		}
		begins := kind == event.GoStatus || kind == event.GoCreate
		if stateful && !begins && (fitting == 0 || fitting > 2) {
			t.Errorf("%v fits %d states", kind, fitting)
		}
		if !stateful && (Before(kind) != Unknown || After(&event.Event{Kind: kind}) != Unknown) {
			t.Errorf("%v changes a state", kind)
		}
		if after := After(&event.Event{Kind: kind}); stateful && (after == Unknown) != (kind == event.GoDestroy || kind == event.GoStatus) {
			t.Errorf("%v leads to %q", kind, after.Name())
		}
	}
}

// TestChain follows a state by the kind that ends it: the state that a kind ends is one that another kind leads to.
func TestChain(t *testing.T) {
	reached := map[State]bool{}
	for _, kind := range event.KindsAll.List() {
		reached[After(&event.Event{Kind: kind})] = true
	}
	for _, kind := range event.KindsAll.List() {
		if !reached[Before(kind)] {
			t.Errorf("%v ends %q, which no event begins", kind, Before(kind).Name())
		}
	}
}

func TestAfter(t *testing.T) {
	for _, test := range []struct {
		event event.Event
		want  State
	}{
		{event.Event{Kind: event.GoCreate}, Runnable},
		{event.Event{Kind: event.GoCreate, State: event.StateWaiting}, Waiting},
		{event.Event{Kind: event.GoSyscallEnd}, Running},
		{event.Event{Kind: event.GoSyscallEnd, State: event.StateRunnable}, Runnable},
		{event.Event{Kind: event.GoStatus, State: event.StateCopystack}, Running},
		{event.Event{Kind: event.GoStatus, State: event.StateLeaked}, Waiting},
		{event.Event{Kind: event.GoStatus, State: "no such state"}, Unknown},
		{event.Event{Kind: event.GoBlock, Value: 7}, Waiting},
		{event.Event{Kind: 255}, Unknown},
	} {
		if got := After(&test.event); got != test.want {
			t.Errorf("%v %q: %q, want %q", test.event.Kind, test.event.State, got.Name(), test.want.Name())
		}
	}
}

func TestRulesFor(t *testing.T) {
	type reported = [NumStates]State
	for _, test := range []struct {
		name     string
		rules    Rules
		reported reported
		start    [NumStates]Fit // of GoStart
		stop     [NumStates]Fit // of GoStop
	}{
		{"all", RulesFor(event.KindsAll, 0), reported{Unknown, Runnable, Running, Syscall, Waiting},
			[NumStates]Fit{Unsure, Fits, Misfit, Fits, Misfit}, [NumStates]Fit{Unsure, Misfit, Fits, Misfit, Misfit}},
		{"default", RulesFor(event.Kinds{}, 0), reported{Unknown, Runnable, Running, Syscall, Waiting},
			[NumStates]Fit{Unsure, Fits, Fits, Unsure, Misfit}, [NumStates]Fit{Unsure, Misfit, Fits, Unsure, Misfit}},
		{"no starts", RulesFor(event.KindsAll.Without(event.KindsOf(event.GoStart)), 0), reported{Unknown, Unknown, Running, Syscall, Waiting},
			[NumStates]Fit{Unsure, Fits, Unsure, Fits, Unsure}, [NumStates]Fit{Unsure, Unsure, Fits, Unsure, Unsure}},
		{"long waits", RulesFor(event.Kinds{}, time.Second), reported{Syscall: Syscall},
			[NumStates]Fit{Unsure, Fits, Fits, Unsure, Unsure}, [NumStates]Fit{Unsure, Unsure, Fits, Unsure, Unsure}},
	} {
		r := &test.rules
		if r.Reported != test.reported || r.Fit[event.GoStart] != test.start || r.Fit[event.GoStop] != test.stop {
			t.Errorf("%s: reported %v, GoStart %v, GoStop %v", test.name, r.Reported, r.Fit[event.GoStart], r.Fit[event.GoStop])
		}
		for kind := range r.Next {
			if s := After(&event.Event{Kind: event.Kind(kind)}); r.Next[kind] != r.Reported[s] {
				t.Errorf("%s: %v leads to %d", test.name, event.Kind(kind), r.Next[kind])
			}
		}
	}
}
