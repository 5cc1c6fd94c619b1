package loupe_test

import (
	"context"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestWallClock compares the times of events with the wall clock before and after the program was told to create goroutines.
func TestWallClock(t *testing.T) {
	const spawned, rounds, slack = 50, 5, time.Millisecond
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	s, err := attachTo(context.Background(), loupe.PID(p.PID()), loupe.Options{Kinds: event.KindsOf(event.GoCreate)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var times []int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range s.Events() {
			if e.Kind == event.GoCreate {
				times = append(times, e.Time)
			}
		}
	}()
	type span struct{ from, to int64 }
	var spans []span
	for range rounds {
		from := time.Now().UnixNano()
		p.Command("spawn 50")
		spans = append(spans, span{from, time.Now().UnixNano()})
		time.Sleep(20 * time.Millisecond)
	}
	s.Detach()
	<-done
	s.Close()
	for i, w := range spans {
		n := 0
		for _, at := range times {
			if at >= w.from-int64(slack) && at <= w.to+int64(slack) {
				n++
			}
		}
		if n < spawned {
			t.Errorf("command %d created %d goroutines from %d to %d; %d events are of that time; all: %d", i, spawned, w.from, w.to, n, times)
		}
	}
}
