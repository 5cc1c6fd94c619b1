package sched

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
)

// TestResample samples fewer goroutines, then all again. The goroutines that are left out are neither alive nor ended, and the time in
// their states is kept.
func TestResample(t *testing.T) {
	const n, second = 1000, int64(time.Second)
	m := New(Options{})
	rule := sampling.OneIn(10)
	kept, out := 0, 0
	for id := uint64(1); id <= n; id++ {
		m.Apply(&event.Event{Time: second, Kind: event.GoCreate, G: id, Origin: originA})
		m.Apply(&event.Event{Time: second, Kind: event.GoStart, G: id, TID: int32(id)})
		m.Apply(&event.Event{Time: second, Kind: event.GoBlock, G: id, Reason: "chan receive"})
		if rule.Selects(id) {
			kept++
		} else {
			out++
		}
	}
	m.Apply(&event.Event{Time: 2 * second, Kind: event.Lost, Value: 1})
	for id := uint64(1); id <= n; id += 2 { // the others stay uncertain
		m.Apply(&event.Event{Time: 3 * second, Kind: event.GoUnblock, G: id})
	}
	check(t, m)
	m.Apply(&event.Event{Time: 5 * second, Kind: event.Resample, Value: rule.Share()})
	check(t, m)
	total := m.Totals()
	if total.Live != uint64(kept) || total.Unsampled != uint64(out) || total.Ended != 0 || total.Reconciled != 0 || total.Lived != 0 || total.Confirmed != n/2 {
		t.Errorf("%d live, %d unsampled, %d ended, %d confirmed; want %d, %d, 0, %d", total.Live, total.Unsampled, total.Ended, total.Confirmed, kept, out, n/2)
	}
	if got, want := total.Time().Sum().Duration(), time.Duration(n)*4*time.Second; got != want {
		t.Errorf("goroutines were in states for %v, want %v", got, want)
	}
	if runnable := total.Done.Runnable.Duration(); runnable == 0 || runnable%(2*time.Second) != 0 {
		t.Errorf("those left out were runnable for %v", runnable)
	}

	m.Apply(&event.Event{Time: 6 * second, Kind: event.Resample, Value: sampling.Rule(0).Share()})
	for id := uint64(1); id <= n; id++ {
		if !rule.Selects(id) {
			m.Apply(&event.Event{Time: 6 * second, Kind: event.GoStatus, G: id, State: event.StateWaiting, Origin: originA})
		}
	}
	check(t, m)
	if total = m.Totals(); total.Live != n || total.AtStart != int64(out) || total.Unsampled != uint64(out) || total.Repairs != 0 {
		t.Errorf("%d live, %d at the start, %d unsampled, %d repairs", total.Live, total.AtStart, total.Unsampled, total.Repairs)
	}
	before := total
	m.Apply(&event.Event{Time: 7 * second, Kind: event.Resample, Value: 1})
	after := m.Totals()
	if d := after.Sub(&before); d.Unsampled != n || after.Live != 0 {
		t.Errorf("%d more are unsampled, %d live", d.Unsampled, after.Live)
	}
	check(t, m)
}
