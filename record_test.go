package loupe_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/trace"
)

// handOver yields the events of two goroutines: n times, goroutine 7 sends to goroutine 8, which has waited for a millisecond.
func handOver(n int) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC).UnixNano()
		stack := &event.Stack{Frames: []event.Frame{{Func: "main.receive", File: "/src/main.go", Line: 7}}}
		next := func(after time.Duration, e event.Event) bool {
			now += int64(after)
			e.Time = now
			return yield(&e)
		}
		running := event.Event{Kind: event.GoStatus, G: 7, State: event.StateRunning, TID: 1, P: event.ProcOf(0)}
		if !next(0, running) || !next(0, event.Event{Kind: event.GoStatus, G: 8, State: event.StateRunning, TID: 2, P: event.ProcOf(1)}) {
			return
		}
		for range n {
			if !next(time.Microsecond, event.Event{Kind: event.GoBlock, G: 8, TID: 2, P: event.ProcOf(1), Reason: "chan receive", Stack: stack}) ||
				!next(time.Millisecond, event.Event{Kind: event.GoUnblock, G: 8, By: 7, TID: 1, P: event.ProcOf(0)}) ||
				!next(time.Microsecond, event.Event{Kind: event.GoStart, G: 8, TID: 2, P: event.ProcOf(1)}) {
				return
			}
		}
		next(time.Microsecond, event.Event{Kind: event.GoDestroy, G: 8, TID: 2, P: event.ProcOf(1)})
	}
}

// TestRecord records in each format that the command offers.
func TestRecord(t *testing.T) {
	formats := []loupe.Format{loupe.FormatGo, loupe.FormatText, loupe.FormatPerfetto, loupe.FormatChrome}
	if names := export.Formats().For(export.Record).Names(); len(names) != len(formats) {
		t.Errorf("the command offers %v", names)
	}
	for _, format := range formats {
		var file bytes.Buffer
		done, err := loupe.Record(&file, handOver(100), loupe.RecordOptions{Format: format, Process: "mill", GoVersion: "go1.26.1"})
		if err != nil || done != (loupe.Recording{Events: 303, Goroutines: 2, Alive: 1, Bytes: int64(file.Len())}) {
			t.Errorf("%s: %+v, %v; %d bytes", format, done, err, file.Len())
		}
		want := map[loupe.Format]string{loupe.FormatGo: "go 1.26 trace", loupe.FormatText: "Trace Go1.26", loupe.FormatPerfetto: "mill", loupe.FormatChrome: `"mill"`}[format]
		if !strings.Contains(file.String(), want) {
			t.Errorf("%s: no %q in %.200q", format, want, file.String())
		}
	}
	if _, err := loupe.Record(&bytes.Buffer{}, handOver(1), loupe.RecordOptions{Format: "svg"}); err == nil || !strings.Contains(err.Error(), "must be one of go, text, perfetto, chrome") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestRecordLimit ends recordings by their size: each is complete.
func TestRecordLimit(t *testing.T) {
	const limit = 200 << 10
	for _, format := range []loupe.Format{loupe.FormatGo, loupe.FormatChrome} {
		var file bytes.Buffer
		done, err := loupe.Record(&file, handOver(1_000_000), loupe.RecordOptions{Format: format, MaxBytes: limit})
		if err != nil || !done.Limited || done.Bytes < limit || done.Bytes > 3*limit || done.Alive != 2 {
			t.Errorf("%s: %+v, %v", format, done, err)
		}
		if format == loupe.FormatChrome {
			if !json.Valid(file.Bytes()) {
				t.Errorf("not JSON: %.200q", file.String())
			}
		} else if report, err := trace.Validate(&file, trace.ValidateOptions{}); err != nil || !report.Valid() {
			t.Errorf("%v, %v", report, err)
		}
	}
}

// full is a writer without room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestRecordErrors(t *testing.T) {
	for _, format := range []loupe.Format{loupe.FormatGo, loupe.FormatPerfetto} {
		if _, err := loupe.Record(full{}, handOver(10), loupe.RecordOptions{Format: format}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", format, err)
		}
	}
}
