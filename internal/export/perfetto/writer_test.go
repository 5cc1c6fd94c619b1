package perfetto

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/exporttest"
)

var everything = Options{Process: "orders", Kinds: exporttest.AllKinds, Threads: true, CounterInterval: -1}

// write returns the trace of a stream.
func write(t testing.TB, events []event.Event, opt Options) ([]byte, Stats) {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, opt)
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Bytes != uint64(b.Len()) {
		t.Fatalf("%d bytes counted, %d written", s.Bytes, b.Len())
	}
	return b.Bytes(), w.Stats()
}

// same fails unless a trace shows what package timeline tells of the stream, and that is sound.
func same(t testing.TB, name string, events []event.Event, opt Options) *decoder {
	t.Helper()
	trace, _ := write(t, events, opt)
	got, err := decode(trace)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := got.Check(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want, _ := exporttest.Record(events, opt, false, opt.Frames)
	if g, w := got.Tracks(), want.Tracks(); g != w {
		t.Fatalf("%s: %s", name, firstDifference(g, w))
	}
	return got
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			return fmt.Sprintf("line %d of %d:\n%s\nwant of %d:\n%s", i, len(g), g[i], len(w), strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

func TestScript(t *testing.T) {
	d := same(t, "script", exporttest.Script(), everything)
	if d.base != uint64(exporttest.Start) {
		t.Errorf("the trace begins at %d", d.base)
	}
	var names []string
	for uuid := uint64(1); d.tracks[uuid] != nil || uuid < 13; uuid++ {
		if track := d.tracks[uuid]; track != nil {
			names = append(names, track.what)
		}
	}
	const want = "process|goroutines|tasks|goroutines alive|goroutines running|goroutines runnable|heap|heap goal|allocated bytes|allocated objects|g 1|thread 7|g 2|g 18|thread 8|GC|" +
		"stop the world|task 3|g 18 regions|lost events|g 19|g 1|thread 7"
	if got := strings.Join(names, "|"); got != want {
		t.Errorf("tracks %s\nwant %s", got, want)
	}
}

func TestAnyStream(t *testing.T) {
	for seed := range uint64(3) {
		whole := exporttest.Random(seed, 2000)
		for _, opt := range []Options{everything, {}, {Frames: 1}, {Frames: -1, MinBlock: 1}} {
			same(t, "whole", whole, opt)
			same(t, "20 % lost", exporttest.Lose(seed, whole, 5), opt)
			same(t, "noise", exporttest.Noise(seed, 2000), opt)
		}
	}
}

// TestUnknownProcess has events without a process ID, as some trace files do: nothing may be ascribed to process 0.
func TestUnknownProcess(t *testing.T) {
	events := exporttest.Script()
	for i := range events {
		events[i].PID = 0
	}
	trace, _ := write(t, events, Options{Process: "a\x00b", Threads: true})
	d, err := decode(trace)
	if err != nil {
		t.Fatal(err)
	}
	if d.tracks[1].name != `a\x00b` {
		t.Errorf("the process is called %q", d.tracks[1].name)
	}
	if s := d.String(); !strings.Contains(s, "thread 7: g 1 main.main") {
		t.Errorf("no thread in\n%s", s)
	}
}

// TestStateIsBounded has more texts than are kept: the state is cleared, and what follows can still be read.
func TestStateIsBounded(t *testing.T) {
	var events []event.Event
	long := strings.Repeat("x", 20_000)
	for i := range 3000 {
		events = append(events, event.Event{Time: int64(i), Kind: event.GoBlock, G: 1, Reason: fmt.Sprint(long, i),
			Stack: &event.Stack{Frames: []event.Frame{{Func: "main.f", Line: i}}}})
	}
	d := same(t, "many texts", events, Options{})
	if d.clears < 4 {
		t.Errorf("the state was cleared %d times", d.clears)
	}
}

// TestNoEvents is a trace without events: it is empty, and valid.
func TestNoEvents(t *testing.T) {
	if trace, _ := write(t, nil, Options{}); len(trace) != 0 {
		t.Errorf("%d bytes", len(trace))
	}
}

func TestErrors(t *testing.T) {
	exporttest.Errors(t, func(w io.Writer) exporttest.Exporter { return NewWriter(w, Options{}) })
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("GoStart does not come alone, it is followed by others."), true)
	f.Fuzz(func(t *testing.T, data []byte, all bool) {
		opt := Options{}
		if all {
			opt = everything
		}
		same(t, "fuzz", exporttest.FromBytes(data[:min(len(data), 10_000)]), opt)
	})
}

func TestMessageLengths(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 1 << 21} {
		b, m := openMessage([]byte("before"), 5)
		b = closeMessage(append(b, bytes.Repeat([]byte{7}, n)...), m)
		list, err := parse(b[len("before"):], "message", wires{5: 'm'})
		if err != nil || len(list) != 1 || len(list[0].bytes) != n || bytes.Count(list[0].bytes, []byte{7}) != n {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
