package raw

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// writeWire returns the wire trace of the events of a reader.
func writeWire(t *testing.T, r EventReader, recompute bool) []byte {
	t.Helper()
	var wire bytes.Buffer
	w, err := NewWriter(&wire, r.Version())
	if err != nil {
		t.Fatal(err)
	}
	w.RecomputeSizes = recompute
	if _, err := Copy(w, r); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return wire.Bytes()
}

// TestWritersRefuse writes events that cannot be written so that they can be read again.
func TestWritersRefuse(t *testing.T) {
	for _, test := range []struct {
		event Event
		want  string
	}{
		{Event{Version: Go123, Type: EvStacks}, "Go1.23 event in a Go1.22 trace: version not supported"},
		{Event{Version: Go122}, "Go1.22 has no event type 0"},
		{Event{Version: Go122, Type: EvGoSwitch, Args: make([]uint64, 3)}, "Go1.22 has no event type 45"},
		{Event{Version: Go122, Type: 255}, "Go1.22 has no event type 255"},
		{Event{Version: Go122, Type: EvGoStart, Args: make([]uint64, 2)}, "GoStart with 2 arguments, want 3"},
		{Event{Version: Go122, Type: EvStacks, Args: make([]uint64, 1)}, "Stacks with 1 arguments, want 0"},
		{Event{Version: Go122, Type: EvStacks, Data: []byte{1}}, "Stacks with data"},
		{Event{Version: Go122, Type: EvStrings, Frames: make([]Frame, 1)}, "Strings with stack frames"},
		{Event{Version: Go122, Type: EvStack, Args: []uint64{1, 2}, Frames: make([]Frame, 1)}, "Stack with 1 frames, but nframes is 2"},
		{Event{Version: Go122, Type: EvStack, Args: []uint64{1, MaxFrames + 1}, Frames: make([]Frame, MaxFrames+1)},
			"Stack: 65537 frames exceed the limit of 65536"},
		{Event{Version: Go122, Type: EvString, Args: []uint64{1}, Data: make([]byte, MaxData+1)},
			"String: 2097153 bytes of data exceed the limit of 2097152"},
	} {
		var wire, text bytes.Buffer
		w, err := NewWriter(&wire, Go122)
		if err != nil {
			t.Fatal(err)
		}
		tw, err := NewTextWriter(&text, Go122)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []interface {
			EventWriter
			Close() error
		}{w, tw} {
			if err := w.WriteEvent(&test.event); err == nil || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
			// The trace goes on without the event.
			good := Event{Version: Go122, Type: EvGoStart, Args: []uint64{1, 2, 3}}
			if err := w.WriteEvent(&good); err != nil {
				t.Error(err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if err := w.WriteEvent(&good); !errors.Is(err, errClosed) {
				t.Errorf("after Close: error %v", err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if want := wireOf(Go122, 16, 1, 2, 3); !bytes.Equal(wire.Bytes(), want) {
			t.Errorf("wrote % x, want % x", wire.Bytes(), want)
		}
		if want := "Trace Go1.22\nGoStart dt=1 g=2 g_seq=3\n"; text.String() != want {
			t.Errorf("wrote %q, want %q", text.String(), want)
		}
	}
	if _, err := NewWriter(io.Discard, 24); !errors.Is(err, ErrVersion) {
		t.Errorf("version 24: %v", err)
	}
	if _, err := NewTextWriter(io.Discard, 24); !errors.Is(err, ErrVersion) {
		t.Errorf("text of version 24: %v", err)
	}
}

// TestRecomputeSizes writes batches with wrong sizes.
func TestRecomputeSizes(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []byte
	}{
		{"sizes", "Trace Go1.26\nEventBatch gen=1 m=2 time=3 size=99\nGoStart dt=1 g=2 g_seq=3\nStacks\nEventBatch gen=1 m=2 time=3 size=99\n",
			wireOf(Go126, 1, 1, 2, 3, 5, 16, 1, 2, 3, 2, 1, 1, 2, 3, 0)},
		{"widths", "Trace Go1.26\n#widths gen=2 size=3\nEventBatch gen=1 m=2 time=3 size=99\nGoStop dt=1 reason_string=2 stack=3\n",
			wireOf(Go126, 1, 0x81, 0, 2, 3, 0x84, 0x80, 0, 19, 1, 2, 3)},
		{"end of generation", "Trace Go1.26\nEventBatch gen=1 m=2 time=3 size=99\nSync\nFrequency freq=9\nEndOfGeneration\nEndOfGeneration\n",
			wireOf(Go126, 1, 1, 2, 3, 3, 50, 8, 9, 52, 52)},
		{"experimental batch", "Trace Go1.26\nEventBatch gen=1 m=2 time=3 size=99\nSync\nExperimentalBatch exp=1 gen=2 m=3 time=4\ndata=\"x\"\n",
			wireOf(Go126, 1, 1, 2, 3, 1, 50, 49, 1, 2, 3, 4, 1, 'x')},
		{"data and stacks", "Trace Go1.22\nEventBatch gen=1 m=2 time=3 size=0\nStrings\nString id=1\ndata=\"x\"\nStack id=1 nframes=1\npc=1 func=2 file=3 line=4\n",
			wireOf(Go122, 1, 1, 2, 3, 12, 4, 5, 1, 1, 'x', 3, 1, 1, 1, 2, 3, 4)},
		{"before the first batch", "Trace Go1.22\nStrings\nEventBatch gen=1 m=2 time=3 size=9\n", wireOf(Go122, 4, 1, 1, 2, 3, 0)},
		{"V1", "Trace Go1.21\nBatch p=1 ticks=2\nProcStop dt=1\n", wireOf(Go121, 1|1<<6, 1, 2, 6, 1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := NewTextReader(strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			r.KeepWidths = true
			if got := writeWire(t, r, true); !bytes.Equal(got, test.want) {
				t.Errorf("wrote % x, want % x", got[headerSize:], test.want[headerSize:])
			}
		})
	}
}

// batchWriter returns a writer that recomputes sizes, with a batch begun.
func batchWriter(t *testing.T, w io.Writer) *Writer {
	t.Helper()
	writer, err := NewWriter(w, Go126)
	if err != nil {
		t.Fatal(err)
	}
	writer.RecomputeSizes = true
	if err := writer.WriteEvent(&Event{Version: Go126, Type: EvEventBatch, Args: []uint64{1, 2, 3, 4}}); err != nil {
		t.Fatal(err)
	}
	return writer
}

// TestRecomputeSizesLimit writes batches around the limit, after others that leave little room in the buffer.
func TestRecomputeSizesLimit(t *testing.T) {
	var wire bytes.Buffer
	w := batchWriter(t, &wire)
	sync := Event{Version: Go126, Type: EvSync}
	batch := Event{Version: Go126, Type: EvEventBatch, Args: []uint64{1, 2, 3, 4}}
	const batches = 10
	for range batches {
		for range MaxBatch {
			if err := w.WriteEvent(&sync); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteEvent(&batch); err != nil {
			t.Fatal(err)
		}
	}
	for range MaxBatch {
		if err := w.WriteEvent(&sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteEvent(&sync); err != errBatch {
		t.Errorf("one byte too many: error %v", err)
	}
	if err := w.Close(); err != errBatch {
		t.Errorf("after that Close returns %v", err)
	}
	want := append(appendHeader(nil, Go126), bytes.Repeat(append([]byte{1, 1, 2, 3, 0x80, 0x80, 4}, bytes.Repeat([]byte{50}, MaxBatch)...), batches)...)
	if got := wire.Bytes(); len(got) < len(want)/2 || !bytes.HasPrefix(want, got) {
		t.Errorf("%d bytes, of which the beginning is not as expected", len(got))
	}
}

// TestRecomputeSizesBigEvent writes events into a batch that are too big for it.
func TestRecomputeSizesBigEvent(t *testing.T) {
	for _, ev := range []Event{
		{Version: Go126, Type: EvString, Args: []uint64{1}, Data: make([]byte, MaxBatch)},
		{Version: Go126, Type: EvString, Args: []uint64{1}, Data: make([]byte, MaxData)},
		{Version: Go126, Type: EvStack, Args: []uint64{1, MaxFrames}, Frames: make([]Frame, MaxFrames)},
	} {
		w := batchWriter(t, io.Discard)
		if err := w.WriteEvent(&ev); err != errBatch {
			t.Errorf("%d bytes, %d frames: error %v", len(ev.Data), len(ev.Frames), err)
		}
	}
	// What is just small enough.
	w := batchWriter(t, io.Discard)
	if err := w.WriteEvent(&Event{Version: Go126, Type: EvString, Args: []uint64{1}, Data: make([]byte, MaxBatch-5)}); err != nil {
		t.Error(err)
	}
}

// TestWriterFlush flushes in the middle of a batch, whose size is not known then.
func TestWriterFlush(t *testing.T) {
	var wire bytes.Buffer
	w := batchWriter(t, &wire)
	want := wireOf(Go126)
	for _, step := range []struct {
		typ  Type
		args []uint64
		add  []byte // what is written then
	}{
		{EvSync, nil, nil},
		{EvGoStart, []uint64{1, 2, 3}, nil},
		{EvEndOfGeneration, nil, []byte{1, 1, 2, 3, 5, 50, 16, 1, 2, 3, 52}},
		{EvGoStart, []uint64{1, 2, 3}, []byte{16, 1, 2, 3}},
	} {
		if err := w.WriteEvent(&Event{Version: Go126, Type: step.typ, Args: step.args}); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		want = append(want, step.add...)
		if !bytes.Equal(wire.Bytes(), want) {
			t.Errorf("after event %d: % x, want % x", step.typ, wire.Bytes(), want)
		}
	}
}

// failingWriter fails after some bytes.
type failingWriter struct{ left int }

var errFull = errors.New("disk full")

func (f *failingWriter) Write(b []byte) (int, error) {
	if len(b) > f.left {
		n := f.left
		f.left = 0
		return n, errFull
	}
	f.left -= len(b)
	return len(b), nil
}

// shortWriter writes less than asked for, without an error.
type shortWriter struct{}

func (shortWriter) Write(b []byte) (int, error) { return len(b) / 2, nil }

// TestWritersOutputError passes on the errors of the underlying writer.
func TestWritersOutputError(t *testing.T) {
	events := []Event{
		{Version: Go126, Type: EvGoStart, Args: []uint64{1, 2, 3}},
		{Version: Go126, Type: EvGoStart, Args: []uint64{1, 2, 3}, Widths: []uint8{2}},
		{Version: Go126, Type: EvEventBatch, Args: []uint64{1, 2, 3, 4}},
		{Version: Go126, Type: EvString, Args: []uint64{1}, Data: make([]byte, 1000)},
		{Version: Go126, Type: EvStack, Args: []uint64{1, 100}, Frames: make([]Frame, 100)},
	}
	for i := range events {
		for _, recompute := range []bool{false, true} {
			w, _ := NewWriter(&failingWriter{left: 1 << 20}, Go126)
			w.RecomputeSizes = recompute
			tw, _ := NewTextWriter(&failingWriter{left: 1 << 20}, Go126)
			for _, w := range []EventWriter{w, tw} {
				var err error
				for n := 0; err == nil && n < 1<<21; n++ {
					err = w.WriteEvent(&events[i])
				}
				if err != errFull && err != errBatch {
					t.Errorf("%s: error %v", &events[i], err)
				}
				if again := w.WriteEvent(&events[i]); again != err {
					t.Errorf("%s: then error %v", &events[i], again)
				}
			}
		}
	}
	w, _ := NewWriter(shortWriter{}, Go126)
	if err := w.Close(); err != io.ErrShortWrite {
		t.Errorf("short write: error %v", err)
	}
}
