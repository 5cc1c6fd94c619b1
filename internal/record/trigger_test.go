package record

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

const ms = int64(time.Millisecond)

func at(t int64, k event.Kind, g uint64) event.Event { return event.Event{Time: t * ms, Kind: k, G: g} }

func text(f Finding) string { return f.What + f.Detail }

func waiting(t int64, g uint64, reason string) event.Event {
	e := at(t, event.GoBlock, g)
	e.Reason = reason
	return e
}

func TestTrigger(t *testing.T) {
	status := at(1, event.GoStatus, 9)
	status.State, status.Reason = event.StateWaiting, "chan send"
	for _, test := range []struct {
		name   string
		when   Conditions
		events []event.Event
		look   int64 // ms; a look after the events
		want   string
		after  int // events taken in until then
	}{
		{"no condition", Conditions{}, []event.Event{waiting(1, 7, "chan send"), at(9000, event.GoUnblock, 7)}, 9001, "", 0},
		{"a wait that is over", Conditions{Blocked: 10 * time.Millisecond}, []event.Event{waiting(1, 7, "sync.Mutex.Lock"), at(12, event.GoUnblock, 7)},
			0, "goroutine 7 has been blocked for 11ms: sync.Mutex.Lock", 2},
		{"a wait under way, by a later event", Conditions{Blocked: 10 * time.Millisecond},
			[]event.Event{waiting(1, 7, "chan send"), at(5, event.GCBegin, 0), at(20, event.GCEnd, 0)}, 0, "goroutine 7 has been blocked for 19ms: chan send", 3},
		{"a wait under way, by a look", Conditions{Blocked: 10 * time.Millisecond}, []event.Event{waiting(1, 7, "chan send")}, 20,
			"goroutine 7 has been blocked for 19ms: chan send", 1},
		{"a wait from before", Conditions{Blocked: 10 * time.Millisecond}, []event.Event{status}, 20, "goroutine 9 has been blocked for 19ms: chan send", 1},
		{"a short wait", Conditions{Blocked: 10 * time.Millisecond}, []event.Event{waiting(1, 7, "chan send"), at(11, event.GoUnblock, 7)}, 90, "", 0},
		{"an idle goroutine", Conditions{Blocked: 10 * time.Millisecond}, []event.Event{waiting(1, 7, "chan receive")}, 90, "", 0},
		{"idle, asked for", Conditions{Blocked: 10 * time.Millisecond, Reasons: []string{"CHAN rec"}}, []event.Event{waiting(1, 7, "chan receive")}, 90,
			"goroutine 7 has been blocked for 89ms: chan receive", 1},
		{"its next wait", Conditions{Blocked: 10 * time.Millisecond},
			[]event.Event{waiting(1, 7, "chan send"), at(5, event.GoUnblock, 7), at(6, event.GoStart, 7), waiting(8, 7, "chan send")}, 16, "", 0},
		{"ended", Conditions{Blocked: 10 * time.Millisecond, Latency: 10 * time.Millisecond},
			[]event.Event{at(1, event.GoCreate, 7), at(2, event.GoStart, 7), at(3, event.GoDestroy, 7)}, 90, "", 0},
		{"late", Conditions{Latency: 10 * time.Millisecond}, []event.Event{at(1, event.GoUnblock, 7), at(12, event.GoStart, 7)}, 0,
			"goroutine 7 has been runnable for 11ms and did not run", 2},
		{"in time", Conditions{Latency: 10 * time.Millisecond}, []event.Event{at(1, event.GoCreate, 7), at(11, event.GoStart, 7)}, 90, "", 0},
		{"never run", Conditions{Latency: 10 * time.Millisecond}, []event.Event{at(1, event.GoStop, 7)}, 12, "goroutine 7 has been runnable for 11ms and did not run", 1},
		{"too many", Conditions{Goroutines: 2}, []event.Event{status, at(2, event.GoCreate, 10), at(3, event.GoCreate, 11)}, 0, "there are 3 goroutines, more than 2; goroutine 11 was created", 3},
		{"not too many", Conditions{Goroutines: 2},
			[]event.Event{status, at(2, event.GoCreate, 10), at(3, event.GoDestroy, 10), at(4, event.GoCreate, 11)}, 0, "", 0},
		{"another program", Conditions{Blocked: 10 * time.Millisecond}, []event.Event{waiting(1, 7, "chan send"), at(5, event.Exec, 0)}, 90, "", 0},
	} {
		trigger := NewTrigger(test.when, event.KindsDefault)
		got, after := "", 0
		for i := range test.events {
			if got == "" {
				got, after = text(trigger.Next(&test.events[i])), i+1
			}
		}
		if got == "" {
			got = text(trigger.Look(time.Unix(0, test.look*ms)))
		}
		if got != test.want || got != "" && after != test.after {
			t.Errorf("%s: %q after %d events, want %q after %d", test.name, got, after, test.want, test.after)
		}
	}
}

// TestTriggerMemory sees that waits that are over are forgotten.
func TestTriggerMemory(t *testing.T) {
	trigger := NewTrigger(Conditions{Blocked: time.Second, Latency: time.Second}, event.KindsDefault)
	for i := range int64(1_000_000) {
		b := event.Event{Time: i * 10_000, Kind: event.GoBlock, G: uint64(i % 100), Reason: "chan send"}
		u := event.Event{Time: i*10_000 + 1, Kind: event.GoUnblock, G: b.G}
		s := event.Event{Time: i*10_000 + 2, Kind: event.GoStart, G: b.G}
		for _, e := range []*event.Event{&b, &u, &s} {
			if f := trigger.Next(e); f.Met() {
				t.Fatal(f)
			}
		}
	}
	if n := len(trigger.waits.entries) + len(trigger.ready.entries); n > 500_000 { // a second has 100,000 of each
		t.Errorf("%d entries are remembered", n)
	}
	if len(trigger.current) != 0 {
		t.Errorf("%d goroutines are remembered that run", len(trigger.current))
	}
}
