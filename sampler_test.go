package loupe

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loupe-go/loupe/event"
)

// TestMemorySampler samples a target whose statistics cannot be read for some time.
func TestMemorySampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		m := &memorySampler{kinds: event.KindsOf(event.HeapGoal, event.AllocBytes), every: 10 * time.Millisecond, pid: 7, began: time.Now(),
			collected: make(chan struct{}, 1), taken: map[event.Kind]uint64{}, read: func(context.Context) (*event.Memory, error) {
				reads++
				switch {
				case reads <= 2 || reads > 6 && reads <= 10:
					return nil, fmt.Errorf("no books %d", reads)
				case reads == 12:
					return nil, ErrExited
				}
				r := &event.Memory{Time: time.Now()}
				r.Heap.Goal, r.Heap.TotalAlloc = uint64(reads), uint64(100*reads)
				return r, nil
			}}
		ended := make(chan struct{})
		stream := func(yield func(*event.Event) bool) {
			yield(&event.Event{Kind: event.GCEnd, Time: time.Now().UnixNano()})
			<-ended
		}
		var goals, bytes []int64
		warned := ""
		detached := false
		for e := range m.events(stream, func() { detached = true; close(ended) }) {
			switch e.Kind {
			case event.HeapGoal:
				goals = append(goals, e.Value)
			case event.AllocBytes:
				bytes = append(bytes, e.Value)
			default:
				t.Errorf("%+v", e)
			}
			if w := m.warnings(); len(w) > 0 && warned == "" {
				warned = w[0].Text
			}
			if e.PID != 7 || time.Since(time.Unix(0, e.Time)) > 60*time.Millisecond {
				t.Errorf("%+v after %v", e, time.Since(time.Unix(0, e.Time)))
			}
			if len(bytes) == 5 {
				break
			}
		}
		if fmt.Sprint(goals, bytes) != "[3 4 5 6 11] [300 400 500 600 1100]" || !detached || reads != 12 {
			t.Errorf("%v, %v; detached %v, %d readings", goals, bytes, detached, reads)
		}
		if warned != "heap sizes and allocation counters are not reported: no books 7" {
			t.Errorf("%q", warned)
		}
		stats := event.Stats{Events: 3, Kinds: map[event.Kind]event.Counts{}}
		m.count(&stats)
		if want := (event.Counts{Produced: 5, Received: 5}); stats.Events != 13 || stats.Kinds[event.HeapGoal] != want {
			t.Errorf("%+v", stats)
		}
		if err := (Options{MemoryInterval: -1}).check(); err == nil || errors.Is(err, ErrExited) {
			t.Errorf("a negative interval: %v", err)
		}
	})
}
