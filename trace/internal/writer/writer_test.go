package writer

import (
	"bytes"
	"errors"
	"io"
	"testing"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

var versions = []raw.Version{raw.Go122, raw.Go123, raw.Go125, raw.Go126}

// writeAll returns the trace of some events.
func writeAll(t testing.TB, events []event.Event, opt Options) ([]byte, Stats) {
	t.Helper()
	var out bytes.Buffer
	w, err := New(&out, opt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := w.Stats()
	if s.Bytes != uint64(out.Len()) || s.Events != uint64(len(events)) {
		t.Fatalf("%d bytes, %d events; stats %+v", out.Len(), len(events), s)
	}
	return out.Bytes(), s
}

// readAll calls yield with each event of a trace, which must be one that golang.org/x/exp/trace reads to its end.
func readAll(t testing.TB, data []byte, yield func(xtrace.Event)) {
	t.Helper()
	r, err := xtrace.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("after %d events: %v", n, err)
		}
		yield(ev)
	}
}

// simulations are streams of different kinds.
var simulations = []simOptions{
	{procs: 2},
	{procs: 4, known: true},
	{procs: 4, syscalls: true, user: true},
	{procs: 4, syscalls: true, known: true, ops: true},
	{procs: 3, syscalls: true, known: true, noTID: true},
	{procs: 3, noTID: true, user: true, ops: true},
	{procs: 8, disorder: true, user: true, ops: true, known: true},
}

// TestWriterBatches expects batches to be no longer than readers accept, however much happens on a thread.
func TestWriterBatches(t *testing.T) {
	first, round := pingPong(8)
	events := first
	for range 2500 {
		events = append(events, round...)
	}
	for i := range events {
		events[i].Time = streamStart + int64(i)*100
	}
	data, stats := writeAll(t, events, Options{})
	r, err := raw.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	batches, largest := 0, uint64(0)
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == raw.EvEventBatch {
			batches++
			largest = max(largest, ev.Args[3])
		}
	}
	if batches < 20 || largest < batchCut || largest > 64<<10 || stats.Generations != 1 {
		t.Errorf("%d batches, the largest has %d bytes; stats %+v", batches, largest, stats)
	}
	starts := 0
	readAll(t, data, func(ev xtrace.Event) {
		if ev.Kind() == xtrace.EventStateTransition && ev.StateTransition().Resource.Kind == xtrace.ResourceGoroutine {
			if from, to := ev.StateTransition().Goroutine(); from == xRunnable && to == xRunning {
				starts++
			}
		}
	})
	if want := 2500 * len(round) / 3; starts != want {
		t.Errorf("%d starts, want %d", starts, want)
	}
}
