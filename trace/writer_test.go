package trace

import (
	"bytes"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// TestWriterBoundedProcs has more goroutines run than there are Ps, since system calls were not observed: the trace is valid and has
// the program's Ps only.
func TestWriterBoundedProcs(t *testing.T) {
	for _, procs := range []int{0, 1, 2, 3} {
		var file bytes.Buffer
		w, err := NewWriter(&file, WriterOptions{Procs: procs})
		if err != nil {
			t.Fatal(err)
		}
		now := int64(1_700_000_000_000_000_000)
		tell := func(e event.Event) {
			now += 1000
			e.Time = now
			if err := w.Write(&e); err != nil {
				t.Fatal(err)
			}
		}
		for g := range uint64(6) {
			tell(event.Event{Kind: event.GoStatus, G: g + 1, State: event.StateRunnable})
		}
		for round := range int32(50) {
			for g := range uint64(6) {
				e := event.Event{Kind: event.GoStart, G: g + 1, TID: int32(g) + 10}
				if procs > 0 && (round+int32(g))%3 == 0 {
					e.P = event.ProcOf(round % int32(procs))
				}
				tell(e)
				tell(event.Event{Kind: event.GoUnblock, G: (g+3)%6 + 1, By: g + 1, TID: int32(g) + 10})
			}
			for g := range uint64(6) {
				tell(event.Event{Kind: event.GoBlock, G: g + 1, TID: int32(g) + 10, Reason: "select"})
				tell(event.Event{Kind: event.GoUnblock, G: g + 1})
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if report, err := Validate(bytes.NewReader(file.Bytes()), ValidateOptions{}); err != nil || report.Errors > 0 {
			t.Fatalf("%d Ps: %v, %+v", procs, err, report.Problems)
		}
		r, err := NewReader(&file)
		if err != nil {
			t.Fatal(err)
		}
		used := map[int32]bool{}
		for e, err := range r.Events() {
			if err != nil {
				t.Fatal(err)
			}
			if id, ok := e.P.ID(); ok {
				used[id] = true
			}
		}
		if procs == 0 && len(used) < 4 {
			t.Errorf("%d Ps are used: the events need more", len(used))
		}
		for id := range used {
			if procs > 0 && int(id) >= procs {
				t.Errorf("P %d is used; there are %d", id, procs)
			}
		}
	}
}
