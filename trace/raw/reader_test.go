package raw

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// wireOf returns a wire trace of a header and bytes.
func wireOf(v Version, body ...byte) []byte {
	return append(appendHeader(nil, v), body...)
}

// readWire returns the events of a wire trace, one a line as String has them, and the error that ends it, if it is not
// io.EOF.
func readWire(r io.Reader, keepWidths bool) (events string, err error) {
	wr, err := NewReader(r)
	if err != nil {
		return "", err
	}
	wr.KeepWidths = keepWidths
	var b strings.Builder
	for ev, err := range wr.All() {
		if err != nil {
			return b.String(), err
		}
		b.WriteString(ev.String() + "\n")
	}
	return b.String(), nil
}

// TestReader reads events of every shape, and writes them again.
func TestReader(t *testing.T) {
	long := bytes.Repeat([]byte{0xff}, 9)
	for _, test := range []struct {
		name string
		wire []byte
		want string
	}{
		{"no events", wireOf(Go122), ""},
		{"plain", wireOf(Go122, 16, 1, 2, 3, 2), "GoStart dt=1 g=2 g_seq=3\nStacks\n"},
		{"numbers", wireOf(Go122, append([]byte{16, 0xff, 0x7f, 0x80, 0x80, 1}, append(long, 1)...)...),
			"GoStart dt=16383 g=16384 g_seq=18446744073709551615\n"},
		{"widths", wireOf(Go122, 16, 0x81, 0, 2, 0x83, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0),
			"#widths dt=2 g_seq=10\nGoStart dt=1 g=2 g_seq=3\n"},
		{"stack", wireOf(Go122, 3, 1, 2, 1, 2, 3, 0x84, 0, 5, 6, 7, 8),
			"#widths 0.line=2\nStack id=1 nframes=2\n\tpc=1 func=2 file=3 line=4\n\tpc=5 func=6 file=7 line=8\n"},
		{"data", wireOf(Go122, 5, 1, 0x83, 0, 'a', 0, '"', 5, 2, 0), "#widths data=2\nString id=1\n\tdata=\"a\\x00\\\"\"\nString id=2\n\tdata=\"\"\n"},
		{"experiment", wireOf(Go123, 49, 1, 2, 3, 4, 1, 'x', 133, 1, 2), "ExperimentalBatch exp=1 gen=2 m=3 time=4\n\tdata=\"x\"\nHeapObjectFree dt=1 id=2\n"},
		{"end of generation", wireOf(Go126, 52, 50, 51, 1, 2, 3, 4), "EndOfGeneration\nSync\nClockSnapshot dt=1 mono=2 sec=3 nsec=4\n"},
		{"V1", wireOf(Go121, 1|1<<6, 1, 2, 2, 9, 6, 7, 14|2<<6, 1, 2, 3, 35, 4),
			"Batch p=1 ticks=2\nFrequency freq=9\nProcStop dt=7\nGoStart dt=1 g=2 seq=3\nTimerGoroutine g=4\n"},
		{"V1 with length", wireOf(Go121, 13|3<<6, 5, 1, 0x82, 1, 3, 4, 3|3<<6, 0x86, 0, 1, 1, 2, 3, 4, 5),
			"GoCreate dt=1 g=130 new_stack=3 stack=4\n#widths length=2\nStack id=1 siz=1\n\tpc=2 func=3 file=4 line=5\n"},
		{"V1 with data", wireOf(Go119, 37, 1, 2, 'a', 'b', 48|3<<6, 4, 1, 2, 3, 4, 1, 'x', 10|0<<6, 1),
			"String id=1\n\tdata=\"ab\"\nUserLog dt=1 id=2 keyid=3 stack=4\n\tdata=\"x\"\nGCSTWDone dt=1\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{bytes.NewReader(test.wire), iotest.OneByteReader(bytes.NewReader(test.wire)),
				iotest.DataErrReader(bytes.NewReader(test.wire))} {
				got, err := readWire(r, true)
				if err != nil || got != test.want {
					t.Errorf("got %v\n%swant\n%s", err, got, test.want)
				}
			}
			r, err := NewReader(bytes.NewReader(test.wire))
			if err != nil {
				t.Fatal(err)
			}
			r.KeepWidths = true
			if again := writeWire(t, r, false); !bytes.Equal(again, test.wire) {
				t.Errorf("% x was written again as\n% x", test.wire, again)
			}
		})
	}
}

// TestReaderErrors reads what is no trace.
func TestReaderErrors(t *testing.T) {
	tooBig := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2}
	endless := bytes.Repeat([]byte{0x80}, 100)
	for _, test := range []struct {
		wire []byte
		want string
	}{
		{nil, "not a Go execution trace: no header"},
		{[]byte("go 1.22 trace\x00\x00"), "not a Go execution trace: no header"},
		{[]byte("Trace Go1.22\nStrings\n"), "not a Go execution trace: no header"},
		{[]byte("go 1.22 tracf\x00\x00\x00"), "not a Go execution trace: malformed header"},
		{[]byte("go 1. trace\x00\x00\x00\x00\x00\x00"), "not a Go execution trace: malformed header"},
		{[]byte("go 1.222 trace\x00\x00\x00"), "not a Go execution trace: malformed header"},
		{[]byte("go 1.24 trace\x00\x00\x00"), "trace of Go 1.24: version not supported"},
		{[]byte("go 1.9 trace\x00\x00\x00\x00"), "trace of Go 1.9: version not supported"},
		{wireOf(Go122, 0), "offset 16: unknown event type 0"},
		{wireOf(Go122, 2, 45, 1, 2, 3), "offset 17: unknown event type 45"},
		{wireOf(Go122, 128, 1, 2, 3, 4), "offset 16: unknown event type 128"},
		{wireOf(Go126, 53), "offset 16: unknown event type 53"},
		{wireOf(Go126, 255), "offset 16: unknown event type 255"},
		{wireOf(Go122, 2, 16), "offset 17: unexpected EOF"},
		{wireOf(Go122, 2, 16, 1, 2), "offset 17: unexpected EOF"},
		{wireOf(Go122, 2, 16, 1, 2, 0x80), "offset 17: unexpected EOF"},
		{wireOf(Go122, append([]byte{16, 1}, tooBig...)...), "offset 16: number exceeds 64 bits"},
		{wireOf(Go122, append([]byte{16, 1}, endless...)...), "offset 16: number exceeds 64 bits"},
		{wireOf(Go122, 3, 1), "offset 16: Stack: unexpected EOF"},
		{wireOf(Go122, 3, 1, 2, 1, 2, 3, 4, 5), "offset 16: Stack: unexpected EOF"},
		{wireOf(Go122, append([]byte{3, 1, 1}, tooBig...)...), "offset 16: Stack: number exceeds 64 bits"},
		{wireOf(Go122, 3, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1), "offset 16: Stack: 18446744073709551615 frames exceed the limit of 65536"},
		{wireOf(Go122, 5, 1, 2, 'x'), "offset 16: String: unexpected EOF"},
		{wireOf(Go122, 5, 1, 0x81, 0x80, 0x80, 1), "offset 16: String: 2097153 bytes of data exceed the limit of 2097152"},
		{wireOf(Go121, 50), "offset 16: unknown event type 50"},
		{wireOf(Go111, 49|3<<6, 5, 1, 2, 3, 4, 5), "offset 16: unknown event type 49"},
		{wireOf(Go121, 14|1<<6, 1, 2), "offset 16: GoStart with the wrong number of arguments"},
		{wireOf(Go121, 13|3<<6, 5, 1, 2, 3, 4), "offset 16: GoCreate: arguments take 4 bytes, but their length is given as 5"},
		{wireOf(Go121, 3|3<<6, 6, 1, 0, 1, 1, 1, 1), "offset 16: Stack: arguments take 2 bytes, but their length is given as 6"},
	} {
		for _, r := range []io.Reader{bytes.NewReader(test.wire), iotest.OneByteReader(bytes.NewReader(test.wire))} {
			_, err := readWire(r, true)
			if err == nil || err.Error() != test.want {
				t.Errorf("% x: got error\n%v, want\n%s", test.wire, err, test.want)
			}
			syntax := new(SyntaxError)
			if begun := strings.HasPrefix(test.want, "offset"); errors.As(err, &syntax) != begun {
				t.Errorf("% x: error %#v", test.wire, err)
			}
			if strings.HasSuffix(test.want, "EOF") && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("% x: error %#v is not io.ErrUnexpectedEOF", test.wire, err)
			}
		}
	}
}

// TestReaderSentinels tells errors apart as a caller does.
func TestReaderSentinels(t *testing.T) {
	if _, err := NewReader(strings.NewReader("go 1.24 trace\x00\x00\x00")); !errors.Is(err, ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
	if _, err := NewReader(strings.NewReader("x")); !errors.Is(err, ErrHeader) {
		t.Errorf("got %v, want ErrHeader", err)
	}
	if _, err := NewTextReader(strings.NewReader("x")); !errors.Is(err, ErrHeader) {
		t.Errorf("text: got %v, want ErrHeader", err)
	}
	if _, err := NewTextReader(strings.NewReader("Trace Go1.1")); !errors.Is(err, ErrVersion) {
		t.Errorf("text: got %v, want ErrVersion", err)
	}
}

// TestReaderInputError passes on the errors of the underlying reader, after the events before them.
func TestReaderInputError(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, body := range [][]byte{{2}, {2, 16, 1}, {2, 3, 1, 1, 2}, {2, 5, 1, 9, 'x'}} {
		got, err := readWire(io.MultiReader(bytes.NewReader(wireOf(Go122, body...)), iotest.ErrReader(broken)), false)
		if got != "Stacks\n" || err != broken {
			t.Errorf("% x: got %q, error %v", body, got, err)
		}
	}
	if _, err := NewReader(iotest.ErrReader(broken)); err != broken {
		t.Errorf("without header: error %v", err)
	}
}

// TestReaderOffset asks where a reader is, across several fillings of its buffer.
func TestReaderOffset(t *testing.T) {
	wire := wireOf(Go122, bytes.Repeat([]byte{16, 1, 2, 3}, bufferSize)...)
	r, err := NewReader(bytes.NewReader(append(wire, 0)))
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	for i := range int64(bufferSize) {
		if r.Offset() != headerSize+4*i {
			t.Fatalf("offset %d before event %d", r.Offset(), i)
		}
		if err := r.ReadEvent(&ev); err != nil {
			t.Fatal(err)
		}
	}
	err = r.ReadEvent(&ev)
	syntax := new(SyntaxError)
	if !errors.As(err, &syntax) || syntax.Offset != int64(len(wire)) || r.Offset() != syntax.Offset {
		t.Errorf("error %v at offset %d, want %d", err, r.Offset(), len(wire))
	}
	if again := r.ReadEvent(&ev); again != err {
		t.Errorf("then error %v", again)
	}
}

// TestReaderReusesSlices reads into one event again, whatever it had.
func TestReaderReusesSlices(t *testing.T) {
	r, err := NewReader(bytes.NewReader(wireOf(Go122, 3, 1, 1, 1, 2, 3, 0x84, 0, 5, 1, 2, 'a', 'b', 2, 16, 1, 2, 3)))
	if err != nil {
		t.Fatal(err)
	}
	r.KeepWidths = true
	ev := Event{Args: make([]uint64, 0, 1), Data: []byte("xyz"), Frames: make([]Frame, 7), Widths: []uint8{9}}
	for _, want := range []string{"#widths 0.line=2\nStack id=1 nframes=1\n\tpc=1 func=2 file=3 line=4", "String id=1\n\tdata=\"ab\"", "Stacks",
		"GoStart dt=1 g=2 g_seq=3"} {
		if err := r.ReadEvent(&ev); err != nil {
			t.Fatal(err)
		}
		if ev.String() != want {
			t.Errorf("got %s, want %s", &ev, want)
		}
	}
}
