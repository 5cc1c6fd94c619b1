package testsets

import (
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/testsets/parcel"
	"github.com/loupe-go/loupe/internal/testsets/tally"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestTally counts by key without an event for each hit, beside another set and the runtime's.
func TestTally(t *testing.T) {
	each(t, stripped(t), func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		var in inbox
		kinds, parcels := tally.New(1000), parcel.New(in.add)
		s := observe(t, target, engine, probe.Want{Kinds: event.KindsOf(event.GoCreate), Sets: []*probe.Set{kinds, parcels}})
		target.Command("weigh 7 5000")
		target.Command("weigh 0 300")
		target.Command("kinds 200")
		target.Command("send 2 label street city")
		in.await(t, 2)
		check := func(when string) {
			t.Helper()
			got, err := s.Table(kinds, tally.Kinds)
			if err != nil || got.Overflow != 0 || len(got.Keys) != 200 {
				t.Fatalf("%s: %d kinds, %d times no room, %v", when, len(got.Keys), got.Overflow, err)
			}
			for kind, want := range map[uint64]uint64{7: 5001, 0: 301, 3: 1, 199: 1} {
				weight := 3*(want-1) + 1
				if c := got.Keys[kind]; c.Counted != want || len(c.Values) != 1 || c.Values[0] != weight {
					t.Errorf("%s: kind %d: %+v, want %d that weigh %d", when, kind, c, want, weight)
				}
			}
		}
		check("attached")
		s.end()
		check("closed")
		if n, err := s.SetNumbers(kinds); err != nil || n != (probe.SetCounts{}) {
			t.Errorf("notes of a set that counts: %+v, %v", n, err)
		}
		if n, err := s.SetNumbers(parcels); err != nil || n.Received != 2 {
			t.Errorf("notes of the other set: %+v, %v", n, err)
		}
		if _, err := s.Table(parcels, tally.Kinds); err == nil {
			t.Error("a table that the set does not have")
		}
	})
}

// TestTallyFull counts more keys than fit: each hit is in a cell or in the overflow.
func TestTallyFull(t *testing.T) {
	each(t, depots(t)[:1], func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		set := tally.New(8)
		s := observe(t, target, engine, probe.Want{Sets: []*probe.Set{set}})
		for range 3 {
			target.Command("kinds 2000")
		}
		got, err := s.Table(set, tally.Kinds)
		sum := got.Overflow
		for _, c := range got.Keys {
			sum += c.Counted
			if c.Values[0] != c.Counted {
				t.Errorf("%+v, want a weight of 1 each", c)
			}
		}
		if err != nil || sum != 6000 || got.Overflow == 0 || len(got.Keys) < 8 {
			t.Errorf("%d hits, %d of them without room, %d kinds, %v", sum, got.Overflow, len(got.Keys), err)
		}
	})
}
