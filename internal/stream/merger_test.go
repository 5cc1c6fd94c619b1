package stream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loupe-go/loupe/event"
)

// collect returns what a Merger yields, and when: kinds and times in milliseconds since now, and the delay until each is yielded.
func collect(m *Merger, began time.Time, most int) (got []string, all bool) {
	all = m.Each(func(e *event.Event) bool {
		at := time.Unix(0, e.Time).Sub(began)
		got = append(got, fmt.Sprintf("%v %d +%d", e.Kind, at.Milliseconds(), (time.Since(began)-at).Milliseconds()))
		return len(got) < most
	})
	return got, all
}

// TestMerger adds events, which arrive 5 ms late, and samples.
func TestMerger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := NewMerger()
		at := func(ms int, kind event.Kind) *event.Event {
			return &event.Event{Time: began.Add(time.Duration(ms) * time.Millisecond).UnixNano(), Kind: kind}
		}
		go func() {
			for _, ms := range []int{10, 20, 30, 300} {
				time.Sleep(time.Until(began.Add(time.Duration(ms+5) * time.Millisecond)))
				m.Add(at(ms, event.GoStart))
			}
			m.End()
		}()
		go func() {
			for _, ms := range []int{12, 22, 100, 299} {
				time.Sleep(time.Until(began.Add(time.Duration(ms) * time.Millisecond)))
				m.AddSample(at(ms, event.HeapGoal))
			}
		}()
		got, all := collect(m, began, 100)
		const want = "GoStart 10 +5,HeapGoal 12 +13,GoStart 20 +5,HeapGoal 22 +13,GoStart 30 +5,HeapGoal 100 +50,HeapGoal 299 +6,GoStart 300 +5"
		if text := strings.Join(got, ","); text != want || !all {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	})
}

// TestMergerEnds ends a stream whose last sample is later than all events, and one whose reader stops while Add waits for room.
func TestMergerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := NewMerger()
		m.Add(&event.Event{Time: began.UnixNano(), Kind: event.GoStart})
		m.AddSample(&event.Event{Time: began.UnixNano() + 1, Kind: event.HeapGoal})
		m.End()
		if got, all := collect(m, began, 100); len(got) != 2 || !all {
			t.Errorf("%q, %v", got, all)
		}
		m = NewMerger()
		added := make(chan int)
		go func() {
			n := 0
			for m.Add(&event.Event{Time: began.UnixNano(), Kind: event.GoStart}) {
				n++
			}
			added <- n
		}()
		if got, all := collect(m, began, 3); len(got) != 3 || all {
			t.Errorf("%q, %v", got, all)
		}
		synctest.Wait() // Add waits for room
		m.Stop()
		if n := <-added; n < mergerEvents {
			t.Errorf("%d events were added", n)
		}
	})
}

// BenchmarkMerger measures what merging adds to each event.
func BenchmarkMerger(b *testing.B) {
	m := NewMerger()
	go func() {
		e := event.Event{Time: 1, Kind: event.GoStart}
		for range b.N {
			m.Add(&e)
		}
		m.End()
	}()
	n := 0
	m.Each(func(*event.Event) bool { n++; return true })
	if n != b.N {
		b.Errorf("%d of %d events", n, b.N)
	}
}
