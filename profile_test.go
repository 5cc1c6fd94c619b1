package loupe_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
)

func TestProfile(t *testing.T) {
	types := loupe.ProfileTypes()
	if !slices.Equal(types, []loupe.ProfileType{loupe.ProfileCreate, loupe.ProfileBlock, loupe.ProfileMutex, loupe.ProfileSched}) {
		t.Errorf("types %v", types)
	}
	for _, kind := range types {
		waits := kind == loupe.ProfileBlock || kind == loupe.ProfileMutex
		if kind.Kinds().IsEmpty() || kind.CountsWaits() != waits {
			t.Errorf("%s: kinds %v, waits %v", kind, kind.Kinds(), kind.CountsWaits())
		}
	}
	p, err := loupe.Profile(handOver(10), loupe.ProfileOptions{Type: loupe.ProfileBlock})
	if err != nil || p.Counted != 10 || p.Uncertain != 0 || len(p.Sample) != 1 || !slices.Equal(p.Sample[0].Value, []int64{10, 10e6}) ||
		p.Sample[0].Location[0].Line[0].Function.Name != "main.receive" {
		t.Fatalf("%+v, %v", p, err)
	}
	if taken := time.Unix(0, p.TimeNanos).UTC(); taken.Year() != 2026 || p.DurationNanos != 10*1_002_000+1000 {
		t.Errorf("from %v on for %v", taken, time.Duration(p.DurationNanos))
	}
	if p, err := loupe.Profile(handOver(10), loupe.ProfileOptions{Type: loupe.ProfileBlock, Reasons: []string{"SEND"}}); err != nil || p.Counted != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, unknown := range []loupe.ProfileType{"", "heap"} {
		if _, err := loupe.Profile(handOver(1), loupe.ProfileOptions{Type: unknown}); err == nil || !strings.Contains(err.Error(), "must be one of create, block, mutex, sched") {
			t.Errorf("%q: %v", unknown, err)
		}
		if unknown.Kinds() != (event.Kinds{}) || unknown.CountsWaits() {
			t.Errorf("%q requires %v", unknown, unknown.Kinds())
		}
	}
}
