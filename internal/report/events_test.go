package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
)

// sampleStream is one event of each kind, hostile names included.
func sampleStream() []event.Event {
	at := func(function, file string, line int) event.Frame {
		return event.Frame{Func: function, File: file, Line: line}
	}
	ask := &event.Stack{Frames: []event.Frame{at("net/http.(*conn).serve", "/go/src/net/http/server.go", 2092),
		at("example.com/orders.ask[...]", "/src/orders/search.go", 41)}}
	evil := &event.Stack{Frames: []event.Frame{at("evil.\x1b]0;owned\x07\"\\", "/src/\u2066ev\xffil.go", 1)}, Truncated: true}
	std := &event.Stack{Frames: []event.Frame{at("time.Sleep", "/go/src/time/sleep.go", 10)}}
	origin := &event.Origin{CreatedBy: at("example.com/orders.search", "/src/orders/search.go", 33), Start: at("example.com/orders.ask", "/src/orders/search.go", 38)}
	system := &event.Origin{Start: at("runtime.bgsweep", "/go/src/runtime/mgcsweep.go", 278), System: true}
	events := []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateWaiting, Reason: "IO wait", Value: 61e9, Stack: std},
		{Kind: event.GoStatus, G: 2, State: event.StateRunnable, Origin: system},
		{Kind: event.GoCreate, G: 1234567890, Parent: 1, Origin: origin, Stack: ask},
		{Kind: event.GoCreate, G: 19, Parent: 1, Origin: origin},
		{Kind: event.GoStart, G: 19},
		{Kind: event.GoStop, G: 19, Reason: event.StopPreempted, Stack: evil},
		{Kind: event.GoBlock, G: 19, Reason: "chan send", TraceReason: "chan send", Stack: ask, Object: 0xc000012345},
		{Kind: event.GoBlock, G: 19, Reason: "select", Value: 1234567, Stack: &event.Stack{}},
		{Kind: event.GoUnblock, G: 19, By: 7, Stack: evil},
		{Kind: event.GoUnblock, G: 19},
		{Kind: event.GoDestroy, G: 19},
		{Kind: event.GoSyscallBegin, G: 19, Stack: ask},
		{Kind: event.GoSyscallEnd, G: 19, Value: 950},
		{Kind: event.GoSyscallEnd, G: 19},
		{Kind: event.ChanMake, G: 19, Object: 0xff},
		{Kind: event.ChanSend, G: 19, Object: 0xff, Stack: ask},
		{Kind: event.ChanReceive, G: 19, Object: 0xff},
		{Kind: event.ChanClose, G: 19, Object: 0xff},
		{Kind: event.Select, G: 19, Value: 3},
		{Kind: event.SemAcquire, G: 19, Object: 0xff},
		{Kind: event.SemRelease, G: 19, Object: 0xff},
		{Kind: event.GCBegin, G: 19},
		{Kind: event.STWBegin, G: 19, Reason: "GC mark termination"},
		{Kind: event.STWEnd},
		{Kind: event.GCEnd},
		{Kind: event.HeapAlloc, Value: 5 << 20},
		{Kind: event.GCMarkAssistBegin, G: 19, Stack: ask},
		{Kind: event.GCMarkAssistEnd, G: 19},
		{Kind: event.Lost, Value: 1200},
		{Kind: event.Exec},
	}
	for i := range events {
		events[i].PID, events[i].TID = 4711, int32(4711+i%2)
		events[i].Time = time.Date(2026, 3, 1, 14, 3, 22, 999999000, time.UTC).UnixNano() + int64(i)*500
	}
	events[len(events)-1].TID = 0
	return events
}

func TestEventsJSON(t *testing.T) {
	var b []byte
	j := NewEventJSON()
	for range 2 { // the second time from the cache
		b = b[:0]
		for _, e := range sampleStream() {
			b = j.Append(b, &e, &stream.Interval{})
		}
	}
	golden(t, "events.json", b)
	for line := range bytes.Lines(b) {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if object["kind"] == nil || object["time"] == nil || object["pid"] != 4711.0 {
			t.Errorf("%s", line)
		}
	}
	if s := string(b); term.Escape(strings.ReplaceAll(s, "\n", "")) != strings.ReplaceAll(s, "\n", "") {
		t.Error("a terminal would understand some of it")
	}
}

// TestEventTimes holds times against package time.
func TestEventTimes(t *testing.T) {
	j := NewEventJSON()
	for _, at := range []int64{0, 1, -1, 1e9 - 1, 1e9, 1700000000_000000001, 1700000000_000000002, 1699999999_999999999, -5_000000001} {
		e := event.Event{Time: at, Kind: event.GCEnd}
		var line struct{ Time time.Time }
		if err := json.Unmarshal(j.Append(nil, &e, nil), &line); err != nil || line.Time.UnixNano() != at {
			t.Errorf("%d: %v, %v", at, err, line.Time)
		}
	}
}

func TestEventsText(t *testing.T) {
	encoder := NewEventText(term.Style{}, event.KindsAll)
	encoder.clock.zone = time.UTC
	var b []byte
	ended := map[event.Kind]stream.Interval{
		event.GoStart:   {State: event.StateRunnable, Duration: 12345},
		event.GoUnblock: {State: event.StateWaiting, Duration: 1250 * time.Microsecond, Partial: true},
		event.GoBlock:   {State: event.StateRunnable, Duration: 1}, // which is none of its words
	}
	for _, e := range sampleStream() {
		in := ended[e.Kind]
		b = encoder.Append(b, &e, &in)
	}
	golden(t, "events.txt", b)
}

func TestShortTime(t *testing.T) {
	for nanos, want := range map[int64]string{1: "1ns", 999: "999ns", 1000: "1µs", 1250: "1.2µs", 99999: "99.9µs", 100999: "100µs",
		1500000: "1.5ms", 999999999: "999ms", 12e9: "12s", 59.96e9: "59.9s", 61e9: "1m1s"} {
		if got := string(appendShortTime(nil, nanos)); got != want {
			t.Errorf("%d: %s, want %s", nanos, got, want)
		}
	}
}

func TestEventSummary(t *testing.T) {
	kinds := event.KindsDefault
	for _, test := range []struct {
		sum        EventSummary
		text, json string
	}{
		{EventSummary{Elapsed: 5 * time.Second, Events: 123456, Shown: 123456, Kinds: kinds, Created: 10, Ended: 9, Goroutines: 42},
			"123,456 events in 5s (24,691/s), 0 lost, 10 goroutines created, 9 ended, 42 alive",
			`{"kind":"Summary","seconds":5,"events":123456,"lost":0,"created":10,"ended":9,"goroutines":42}`},
		{EventSummary{Elapsed: time.Second, Events: 1, Lost: 3, Kinds: event.KindsOf(event.GoBlock),
			LostByKind: map[event.Kind]uint64{event.GoBlock: 2, event.GoStart: 1}},
			"1 event in 1s (1/s), 0 shown, 3 lost",
			`{"kind":"Summary","seconds":1,"events":1,"shown":0,"lost":3,"lostByKind":{"GoBlock":2,"GoStart":1}}`},
		{EventSummary{Kinds: event.KindsOf(event.GoCreate)}, "0 events in 0ns, 0 lost, 0 goroutines created",
			`{"kind":"Summary","seconds":0,"events":0,"lost":0,"created":0}`},
	} {
		var text, doc bytes.Buffer
		if err := errors.Join(test.sum.Text(&text, term.Style{}), test.sum.JSON(&doc)); err != nil {
			t.Fatal(err)
		}
		if text.String() != test.text+"\n" || doc.String() != test.json+"\n" {
			t.Errorf("%s%s", text.String(), doc.String())
		}
	}
	if got := LossWords(1, nil); got != "1 event was lost" {
		t.Error(got)
	}
	if got := LossWords(6, map[event.Kind]uint64{event.GoStop: 1, event.GoBlock: 4, event.GoStart: 1}); got != "6 events were lost (GoBlock 4, GoStart 1, GoStop 1)" {
		t.Error(got)
	}
}

// failingWriter takes some writes and then no more.
type failingWriter struct {
	left int
	err  error
	got  bytes.Buffer
}

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, w.err
	}
	return w.got.Write(b)
}

func TestEventWriter(t *testing.T) {
	events := sampleStream()
	write := func(w *EventWriter, rounds int) (written int, err error) {
		for range rounds {
			for i := range events {
				if err := w.Write(&events[i], &stream.Interval{}); err != nil {
					return written, err
				}
				written++
			}
		}
		return written, nil
	}
	var all failingWriter
	all.left = 1 << 30
	w := NewEventWriter(&all, NewEventJSON())
	n, err := write(w, 1000)
	if err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(all.got.Bytes(), []byte("\n")); lines != n || n != 1000*len(events) {
		t.Errorf("%d lines of %d events", lines, n)
	}
	broken := failingWriter{left: 2, err: io.ErrClosedPipe}
	w = NewEventWriter(&broken, NewEventJSON())
	if n, err := write(w, 1000); !errors.Is(err, io.ErrClosedPipe) || n == 0 {
		t.Errorf("%v after %d events", err, n)
	}
	if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) || broken.left != -1 {
		t.Errorf("%v; %d writes after the failure", err, -1-broken.left)
	}
	idle := failingWriter{left: 0, err: io.ErrClosedPipe}
	w = NewEventWriter(&idle, NewEventJSON())
	write(w, 1)
	if err := w.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the last write failed: %v", err)
	}
}

func TestTextCacheIsBounded(t *testing.T) {
	var c textCache[event.Stack]
	long := strings.Repeat("x", 1<<20)
	for i := range 3 * maxCachedText / len(long) {
		got := c.get(&event.Stack{}, func(b []byte, _ *event.Stack) []byte { return append(b, long...) })
		if len(got) != len(long) || c.bytes > maxCachedText+len(long) || len(c.texts) > maxCachedText/len(long)+1 {
			t.Fatalf("after %d: %d bytes in %d texts", i, c.bytes, len(c.texts))
		}
	}
}

// FuzzQuoted holds that any text becomes a JSON string that says the same and does nothing to a terminal.
func FuzzQuoted(f *testing.F) {
	for _, s := range []string{"", "main.(*T).f[...]", "\"\\\n\x1b\x7f", "\u2066ü\U000e0041", "a\xffb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		doc := appendQuoted(nil, s)
		var back string
		if err := json.Unmarshal(doc, &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Errorf("%q became %q: %v", s, doc, err)
		}
		if term.Escape(string(doc)) != string(doc) {
			t.Errorf("%q is not harmless", doc)
		}
	})
}

func benchmarkEvents(b *testing.B, encoder EventEncoder) {
	frames := make([]event.Frame, 12)
	for i := range frames {
		frames[i] = event.Frame{Func: fmt.Sprintf("github.com/example/orders/internal/search.(*Index).level%d", i),
			File: "/src/github.com/example/orders/internal/search/index.go", Line: 100 + i}
	}
	stacks := make([]event.Stack, 500)
	for i := range stacks {
		stacks[i].Frames = frames
	}
	var ended stream.Interval
	w := NewEventWriter(io.Discard, encoder)
	b.ReportAllocs()
	at := time.Now().UnixNano()
	var e event.Event
	for i := range b.N {
		// What a scheduler does most: blocks and unblocks with a stack, starts without.
		e = event.Event{Time: at + int64(i)*1000, Kind: event.GoStart, PID: 4711, TID: 4712, G: uint64(1000 + i%5000)}
		switch i % 3 {
		case 1:
			e.Kind, e.Reason, e.TraceReason, e.Stack = event.GoBlock, "chan receive", "chan receive", &stacks[i%len(stacks)]
		case 2:
			e.Kind, e.By, e.Stack = event.GoUnblock, 17, &stacks[i%len(stacks)]
		}
		if err := w.Write(&e, &ended); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkEventsJSON(b *testing.B) { benchmarkEvents(b, NewEventJSON()) }

func BenchmarkEventsText(b *testing.B) {
	benchmarkEvents(b, NewEventText(term.Style{}, event.KindsDefault))
}
