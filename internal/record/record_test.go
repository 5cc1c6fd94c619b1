package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// begin is when the made-up program is observed from.
const begin = int64(1_700_000_000_000_000_000)

// program makes up events: goroutine 5 wakes 7 every millisecond, goroutine 9 waits all the time.
func program(seconds int, yield func(*event.Event)) {
	stack := &event.Stack{Frames: []event.Frame{{Func: "main.worker", File: "/src/main.go", Line: 7}}}
	status := func(g uint64, s event.State, reason string, tid int32) {
		yield(&event.Event{Time: begin, Kind: event.GoStatus, G: g, State: s, Reason: reason, TID: tid, Stack: stack})
	}
	status(5, event.StateRunning, "", 100)
	status(7, event.StateWaiting, "chan receive", 0)
	status(9, event.StateWaiting, "select", 0)
	for i := range int64(seconds) * 1000 {
		t := begin + 1000 + i*ms
		yield(&event.Event{Time: t, Kind: event.GoUnblock, G: 7, By: 5, TID: 100, Stack: stack})
		yield(&event.Event{Time: t + 1000, Kind: event.GoStart, G: 7, TID: 101, P: event.ProcOf(1)})
		yield(&event.Event{Time: t + 5000, Kind: event.GoBlock, G: 7, TID: 101, Reason: "chan receive", TraceReason: "chan receive", Stack: stack})
	}
}

// read returns the times of each transition of a trace by goroutine, as golang.org/x/exp/trace reads them.
func read(t *testing.T, r io.Reader) map[xtrace.GoID][]int64 {
	t.Helper()
	reader, err := xtrace.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	times := map[xtrace.GoID][]int64{}
	for {
		ev, err := reader.ReadEvent()
		if errors.Is(err, io.EOF) {
			return times
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind() != xtrace.EventStateTransition || ev.StateTransition().Resource.Kind != xtrace.ResourceGoroutine {
			continue
		}
		g := ev.StateTransition().Resource.Goroutine()
		if from, to := ev.StateTransition().Goroutine(); from != to {
			times[g] = append(times[g], int64(ev.Time()))
		}
	}
}

// formats are those that live events are recorded in. The first one is a Go trace.
var formats = export.Formats().For(export.Record)

// TestSinks reads back what each format has of the same events.
func TestSinks(t *testing.T) {
	files := map[string]*bytes.Buffer{}
	for _, format := range formats {
		f := format.Name
		files[f] = &bytes.Buffer{}
		sink, err := format.New(files[f], export.Options{Process: "mill", Kinds: event.KindsDefault})
		if err != nil {
			t.Fatal(err)
		}
		program(1, func(e *event.Event) {
			if err := sink.Write(e); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
		})
		if err := sink.Close(); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	if got := len(read(t, bytes.NewReader(files[export.Go].Bytes()))[7]); got != 3001 { // the first one is from undetermined
		t.Errorf("goroutine 7 has %d transitions, it made 3000", got)
	}
	text, err := raw.NewTextReader(files[export.Text])
	if err != nil {
		t.Fatal(err)
	}
	var wire bytes.Buffer
	w, err := raw.NewWriter(&wire, text.Version())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Copy(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(wire.Bytes(), files[export.Go].Bytes()) {
		t.Errorf("the text is another trace: %d bytes as wire, not %d", wire.Len(), files[export.Go].Len())
	}
	var doc struct{ TraceEvents []json.RawMessage }
	if err := json.Unmarshal(files[export.Chrome].Bytes(), &doc); err != nil || len(doc.TraceEvents) < 3000 {
		t.Errorf("chrome: %d events, %v", len(doc.TraceEvents), err)
	}
	if files[export.Perfetto].Len() < 10_000 {
		t.Errorf("perfetto: %d bytes", files[export.Perfetto].Len())
	}
}

// broken is a file that takes no more.
type broken struct{ room int }

var errFull = errors.New("no space left on device")

func (b *broken) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestFullDisk sees that the error of the file is reported, whatever the format, and nothing hangs.
func TestFullDisk(t *testing.T) {
	for _, f := range formats {
		for _, room := range []int{0, 20, 10_000} {
			sink, err := f.New(&broken{room}, export.Options{})
			if err == nil {
				program(1, func(e *event.Event) { err = errors.Join(err, sink.Write(e)) })
				err = errors.Join(err, sink.Close())
			}
			if !errors.Is(err, errFull) {
				t.Errorf("%s, %d bytes: %v", f.Name, room, err)
			}
		}
	}
}

// TestFlight reads what is kept of a minute.
func TestFlight(t *testing.T) {
	f, err := NewFlight(3*time.Second, 1<<30, export.Options{Kinds: event.KindsDefault})
	if err != nil {
		t.Fatal(err)
	}
	program(60, func(e *event.Event) {
		if err := f.Write(e); err != nil {
			t.Fatal(err)
		}
	})
	for round := range 2 { // what was taken once is there again
		s, err := f.Take()
		if err != nil {
			t.Fatal(err)
		}
		if d := s.To.Sub(s.From); d < 3*time.Second || d > 4*time.Second || s.Short || !s.To.Equal(time.Unix(0, begin+59_999*ms+6000)) {
			t.Fatalf("from %v to %v (%v), short: %v", s.From, s.To, d, s.Short)
		}
		var out bytes.Buffer
		if err := s.Write(&out, &formats[0]); err != nil {
			t.Fatal(err)
		}
		times := read(t, bytes.NewReader(out.Bytes()))
		all := times[7]
		if n := len(all); n < 9000 || n > 12_010 || !slices.IsSorted(all) {
			t.Errorf("round %d: %d transitions of goroutine 7", round, n)
		}
		if len(times[5]) != 1 || len(times[9]) != 1 {
			t.Errorf("round %d: goroutines that did nothing have %d and %d transitions, want the first state", round, len(times[5]), len(times[9]))
		}
		if report, err := trace.Validate(bytes.NewReader(out.Bytes()), trace.ValidateOptions{}); err != nil || report.Errors > 0 {
			t.Errorf("round %d: %+v, %v", round, report, err)
		}
		for _, format := range formats[1:] {
			if err := s.Write(&out, &format); err != nil {
				t.Errorf("%s: %v", format.Name, err)
			}
		}
	}
}

// TestFlightMemory gives it less room than the time needs.
func TestFlightMemory(t *testing.T) {
	const room = 100_000
	f, err := NewFlight(time.Minute, room, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	program(30, func(e *event.Event) {
		if err := f.Write(e); err != nil {
			t.Fatal(err)
		}
		if f.size > room+64<<10 {
			t.Fatalf("%d bytes are kept, %d may be", f.size, room)
		}
	})
	s, err := f.Take()
	if err != nil {
		t.Fatal(err)
	}
	if !s.Short || s.To.Sub(s.From) > 20*time.Second {
		t.Errorf("%v are kept, short: %v", s.To.Sub(s.From), s.Short)
	}
	var out bytes.Buffer
	if err := s.Write(&out, &formats[0]); err != nil {
		t.Fatal(err)
	}
	if len(read(t, &out)[7]) < 100 {
		t.Error("nearly nothing is left")
	}
}

func TestFlightEmpty(t *testing.T) {
	f, err := NewFlight(time.Second, 1<<20, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Take(); err == nil {
		t.Error("a stretch without events")
	}
}
