package raw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// slowReader hides what a reader is, so that Copy takes no short way.
type slowReader struct{ EventReader }

// wireToText copies a wire trace to text.
func wireToText(wire []byte, keepWidths, slow bool) (text string, n int64, err error) {
	r, err := NewReader(bytes.NewReader(wire))
	if err != nil {
		return "", 0, err
	}
	r.KeepWidths = keepWidths
	var b strings.Builder
	w, err := NewTextWriter(&b, r.Version())
	if err != nil {
		return "", 0, err
	}
	if slow {
		n, err = Copy(w, slowReader{r})
	} else {
		n, err = Copy(w, r)
	}
	w.Close()
	return b.String(), n, err
}

// TestCopy compares the short way from the wire to text with the long one.
func TestCopy(t *testing.T) {
	for _, v := range []Version{Go111, Go121, Go122, Go126} {
		var b bytes.Buffer
		w, _ := NewWriter(&b, v)
		for range 200 {
			for _, ev := range sample(v) {
				if err := w.WriteEvent(&ev); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.Close()
		for _, end := range [][]byte{nil, {0}, {16}, {16, 1, 2}, {14 | 2<<6, 1, 2}, {16, 1, 0x80}, bytes.Repeat([]byte{0x90}, 100)} {
			wire := append(b.Bytes(), end...)
			for _, keepWidths := range []bool{false, true} {
				got, n, err := wireToText(wire, keepWidths, false)
				want, wantN, wantErr := wireToText(wire, keepWidths, true)
				if got != want || n != wantN || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
					t.Errorf("%s, % x at the end: %d bytes, %d events, %v; want %d, %d, %v", v, end, len(got), n, err, len(want), wantN, wantErr)
				}
			}
		}
	}
}

// TestCopyToWire compares the short way from text to the wire with the long one.
func TestCopyToWire(t *testing.T) {
	for _, text := range []string{
		"GoStart dt=1 g=2 g_seq=3\nGoStart dt=18446744073709551615 g=128 g_seq=16384\n",
		"GoStart dt=1 g=2 g_seq=3\r\n\nGoStart  dt=1 g=2 g_seq=3\nGoStart dt=1 g=2 g_seq=3#\nGoStart dt=1 g=2 g_seq=3",
		"String id=1\n#widths g=5\nGoStart dt=1 g=2 g_seq=3\nGoStart dt=1 g=2 g_seq=3\n",
		"Stacks\nStack id=1 nframes=1\n\tpc=1 func=2 file=3 line=4\nString id=1\n\tdata=\"x\"\nProcStop dt=5\n",
		"ProcStop dt=5\nProcStop dt=18446744073709551616\n",
		"ProcStop dt=5\nProcStop dt=5 g=1\n",
		"ProcStop dt=5\nGoStart dt=1 g_seq=3 g=2\n",
		"ProcStop dt=5\nProcStop dt=" + strings.Repeat("1", 2*bufferSize),
		strings.Repeat("GoStart dt=1 g=2 g_seq=3\n", bufferSize/8) + "ProcStop dt=6",
	} {
		text = "Trace Go1.22\n" + text
		for _, recompute := range []bool{false, true} {
			var wires [2]bytes.Buffer
			var counts [2]int64
			var errs [2]string
			for i := range wires {
				r, err := NewTextReader(strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				r.KeepWidths = true
				w, _ := NewWriter(&wires[i], Go122)
				w.RecomputeSizes = recompute
				var src EventReader = r
				if i == 1 {
					src = slowReader{r}
				}
				counts[i], err = Copy(w, src)
				errs[i] = fmt.Sprint(err, r.Line())
				w.Close()
			}
			if !bytes.Equal(wires[0].Bytes(), wires[1].Bytes()) || counts[0] != counts[1] || errs[0] != errs[1] {
				t.Errorf("%.80q, recompute=%v: % x and % x, %d events, errors %q", text, recompute, wires[0].Bytes(), wires[1].Bytes(), counts, errs)
			}
		}
	}
}

// TestCopyErrors copies what cannot be read, or not be written.
func TestCopyErrors(t *testing.T) {
	wire := wireOf(Go122, bytes.Repeat([]byte{16, 1, 2, 3}, bufferSize)...)
	newReader := func() *Reader {
		r, err := NewReader(bytes.NewReader(wire))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w, _ := NewTextWriter(io.Discard, Go123)
	if n, err := Copy(w, newReader()); n != 0 || !errors.Is(err, ErrVersion) {
		t.Errorf("to another version: %d events, %v", n, err)
	}
	w, _ = NewTextWriter(&failingWriter{left: 3 * bufferSize}, Go122)
	if n, err := Copy(w, newReader()); n == 0 || err != errFull {
		t.Errorf("to a full disk: %d events, %v", n, err)
	}
	w.Close()
	if n, err := Copy(w, newReader()); n != 0 || err != errClosed {
		t.Errorf("to a closed writer: %d events, %v", n, err)
	}
	broken := errors.New("disk on fire")
	r, err := NewReader(io.MultiReader(bytes.NewReader(wire), iotest.ErrReader(broken)))
	if err != nil {
		t.Fatal(err)
	}
	w, _ = NewTextWriter(io.Discard, Go122)
	if n, err := Copy(w, r); n != bufferSize || err != broken {
		t.Errorf("from a broken disk: %d events, %v", n, err)
	}
}

// TestEventString describes events that cannot be written.
func TestEventString(t *testing.T) {
	for _, test := range []struct {
		event Event
		want  string
	}{
		{Event{}, "event of Go1.0: version not supported"},
		{Event{Version: Go122, Type: 99}, "Go1.22 has no event type 99"},
		{Event{Version: Go122, Type: EvGoStart}, "GoStart with 0 arguments, want 3"},
		{Event{Version: Go122, Type: EvString, Args: []uint64{1}, Data: bytes.Repeat([]byte("x\n"), 1000)},
			"String id=1\n\tdata=\"" + strings.Repeat(`x\n`, 1000) + `"`},
	} {
		if got := test.event.String(); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
		if spec := test.event.Spec(); (spec == nil) != (test.event.Version != Go122 || test.event.Type == 99) {
			t.Errorf("%s: specification %v", test.want, spec)
		}
	}
}

// TestEventClone changes an event of which there is a copy.
func TestEventClone(t *testing.T) {
	ev := &Event{Version: Go122, Type: EvStack, Args: []uint64{1, 1}, Frames: []Frame{{1, 2, 3, 4}}, Widths: []uint8{2}, Data: []byte("x")}
	c := ev.Clone()
	ev.Args[0], ev.Frames[0].PC, ev.Widths[0], ev.Data[0] = 0, 0, 0, 0
	if c.Args[0] != 1 || c.Frames[0].PC != 1 || c.Widths[0] != 2 || c.Data[0] != 'x' || c.Type != EvStack || c.Version != Go122 {
		t.Errorf("the copy became %+v", c)
	}
}

func TestWireToText(t *testing.T) {
	wire := []byte("go 1.23 trace\x00\x00\x00" + "\x01\x01\x05\x00\x02\x08\x07")
	var text strings.Builder
	if err := WireToText(&text, bytes.NewReader(wire)); err != nil {
		t.Fatal(err)
	}
	const want = "Trace Go1.23\nEventBatch gen=1 m=5 time=0 size=2\nFrequency freq=7\n"
	if text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
	text.Reset()
	if err := WireToText(&text, bytes.NewReader(wire[:len(wire)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
	if text.String() != want[:strings.Index(want, "Freq")] {
		t.Errorf("cut off: %q", text.String())
	}
}
