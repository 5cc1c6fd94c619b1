package raw

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// readText returns the events of a text trace, one a line as String has them, and the error that ends it, if it is not
// io.EOF.
func readText(r io.Reader, keepWidths bool) (events string, err error) {
	tr, err := NewTextReader(r)
	if err != nil {
		return "", err
	}
	tr.KeepWidths = keepWidths
	var b strings.Builder
	for ev, err := range tr.All() {
		if err != nil {
			return b.String(), err
		}
		b.WriteString(ev.String() + "\n")
	}
	return b.String(), nil
}

// TestTextReader reads texts of all the shapes that the format allows.
func TestTextReader(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"no events", "Trace Go1.22\n", ""},
		{"no line feed at the end", "Trace Go1.22", ""},
		{"last line without line feed", "Trace Go1.22\nGoStart dt=1 g=2 g_seq=3", "GoStart dt=1 g=2 g_seq=3\n"},
		{"comment before header", "# a trace\n\nTrace Go1.23 # yes\nGoSwitch dt=1 g=2 g_seq=3\n", "GoSwitch dt=1 g=2 g_seq=3\n"},
		{"white space", "\r\n \t Trace\vGo1.22 \u00a0\r\n\u2003GoStart\u3000dt=1\tg=2  g_seq=3 \r\n\f\n", "GoStart dt=1 g=2 g_seq=3\n"},
		{"CR LF", "Trace Go1.22\r\nStrings\r\nString id=1\r\n\tdata=\"x\"\r\nGoStart dt=1 g=2 g_seq=3\r\n",
			"Strings\nString id=1\n\tdata=\"x\"\nGoStart dt=1 g=2 g_seq=3\n"},
		{"comments", "Trace Go1.22\n#\n # x\nGoStart dt=1 g=2 g_seq=3#4\nStacks#\n", "GoStart dt=1 g=2 g_seq=3\nStacks\n"},
		{"numbers", "Trace Go1.22\nGoStart dt=0 g=18446744073709551615 g_seq=00000000000000000000000000007\n",
			"GoStart dt=0 g=18446744073709551615 g_seq=7\n"},
		{"stack", "Trace Go1.22\nStack id=1 nframes=2\n\tpc=1 func=2 file=3 line=4\n\n# leaf first\n pc=5  func=6 file=7 line=8 #\nStacks\n",
			"Stack id=1 nframes=2\n\tpc=1 func=2 file=3 line=4\n\tpc=5 func=6 file=7 line=8\nStacks\n"},
		{"stack of none", "Trace Go1.22\nStack id=1 nframes=0\n", "Stack id=1 nframes=0\n"},
		{"data", "Trace Go1.22\nString id=1\n\n# data\n data = \"a#\\\"\\x00\\377\\u00e9\\U0001F600\" # end\n",
			"String id=1\n\tdata=\"a#\\\"\\x00\\xffé😀\"\n"},
		{"raw data", "Trace Go1.22\nString id=1\ndata=`a\\n\"`\n", "String id=1\n\tdata=\"a\\\\n\\\"\"\n"},
		{"no data", "Trace Go1.22\nString id=1\nString id=2\n\tdata=\"\"\nString id=3\n",
			"String id=1\n\tdata=\"\"\nString id=2\n\tdata=\"\"\nString id=3\n\tdata=\"\"\n"},
		{"no data before a comment", "Trace Go1.22\nString id=1\n\n#widths id=2\nString id=2\n\tdata=\"x\"\n",
			"String id=1\n\tdata=\"\"\n#widths id=2\nString id=2\n\tdata=\"x\"\n"},
		{"widths", "Trace Go1.22\n#widths dt=2 g_seq=10\nGoStart dt=1 g=2 g_seq=3\nGoStart dt=1 g=2 g_seq=3\n",
			"#widths dt=2 g_seq=10\nGoStart dt=1 g=2 g_seq=3\nGoStart dt=1 g=2 g_seq=3\n"},
		{"widths of a stack", "Trace Go1.22\n #widths\tnframes=2 0.pc=3 1.line=4 # wide\n\n# x\n#widthsy\nStack id=1 nframes=2\npc=1 func=2 file=3 line=4\npc=5 func=6 file=7 line=8\n",
			"#widths nframes=2 0.pc=3 1.line=4\nStack id=1 nframes=2\n\tpc=1 func=2 file=3 line=4\n\tpc=5 func=6 file=7 line=8\n"},
		{"widths of data", "Trace Go1.22\n#widths data=2\nString id=1\ndata=\"x\"\n", "#widths data=2\nString id=1\n\tdata=\"x\"\n"},
		{"widths that are too small", "Trace Go1.22\n#widths dt=1 g=2\nGoStart dt=1000 g=1000 g_seq=3\n", "GoStart dt=1000 g=1000 g_seq=3\n"},
		{"the last widths count", "Trace Go1.22\n#widths x\n#widths g=2\nGoStart dt=1 g=1 g_seq=3\n", "#widths g=2\nGoStart dt=1 g=1 g_seq=3\n"},
		{"widths of nothing", "Trace Go1.22\n#widths x\n", ""},
		{"V1", "Trace Go1.19\n#widths length=10\nStack id=1 siz=1\npc=1 func=2 file=3 line=4\nGCSTWStart dt=1 kindid=2\nUserLog dt=1 id=2 keyid=3 stack=4\ndata=\"x\"\n",
			"#widths length=10\nStack id=1 siz=1\n\tpc=1 func=2 file=3 line=4\nGCSTWStart dt=1 kindid=2\nUserLog dt=1 id=2 keyid=3 stack=4\n\tdata=\"x\"\n"},
		{"experiment", "Trace Go1.26\nExperimentalBatch exp=1 gen=2 m=3 time=4\ndata=\"x\"\nSpanAlloc dt=1 id=2 npages_value=3 kindclass=4\nEndOfGeneration\n",
			"ExperimentalBatch exp=1 gen=2 m=3 time=4\n\tdata=\"x\"\nSpanAlloc dt=1 id=2 npages_value=3 kindclass=4\nEndOfGeneration\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(test.text), iotest.OneByteReader(strings.NewReader(test.text))} {
				got, err := readText(r, true)
				if err != nil {
					t.Fatal(err)
				}
				if got != test.want {
					t.Errorf("got\n%swant\n%s", got, test.want)
				}
			}
		})
	}
}

// TestTextReaderErrors reads texts that are none.
func TestTextReaderErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "line 1: not a Go execution trace: no header"},
		{"GoStart dt=1 g=2 g_seq=3\n", `line 1: not a Go execution trace: want a header such as "Trace Go1.22", got "GoStart dt=1 g=2 g_seq=3"`},
		{"\nTrace Go1.22 x\n", `line 2: not a Go execution trace: want a header such as "Trace Go1.22", got "Trace Go1.22 x"`},
		{"Trace Go1.\n", `line 1: not a Go execution trace: want a header such as "Trace Go1.22", got "Trace Go1."`},
		{"Trace go1.22\n", `line 1: not a Go execution trace: want a header such as "Trace Go1.22", got "Trace go1.22"`},
		{"Trace Go1.24\n", "line 1: trace of Go 1.24: version not supported"},
		{"Trace Go1.278\n", "line 1: trace of Go 1.278: version not supported"},
		{"Trace Go1.22\n\nGoSwitch dt=1 g=2 g_seq=3\n", `line 3: unknown event "GoSwitch"`},
		{"Trace Go1.22\nGoStart\n", "line 2: GoStart: argument dt is missing"},
		{"Trace Go1.22\nGoStart dt=1 g=2 # g_seq=3\n", "line 2: GoStart: argument g_seq is missing"},
		{"Trace Go1.22\nGoStart dt=1 g_seq=3 g=2\n", `line 2: GoStart: want argument g, got "g_seq=3"`},
		{"Trace Go1.22\nGoStart dt=1 g = 2 g_seq=3\n", `line 2: GoStart: want argument g, got "g"`},
		{"Trace Go1.22\nGoStart dt=1 g=2 g_seq=3 x\n", `line 2: GoStart: "x" after the last argument`},
		{"Trace Go1.22\nGoStart dt=1 g=2x g_seq=3\n", `line 2: GoStart: argument g: "2x" is not a number from 0 to 18446744073709551615`},
		{"Trace Go1.22\nGoStart dt=1 g= g_seq=3\n", `line 2: GoStart: argument g: "" is not a number from 0 to 18446744073709551615`},
		{"Trace Go1.22\nGoStart dt=1 g=-2 g_seq=3\n", `line 2: GoStart: argument g: "-2" is not a number from 0 to 18446744073709551615`},
		{"Trace Go1.22\nGoStart dt=1 g=2 g_seq=18446744073709551616\n",
			`line 2: GoStart: argument g_seq: "18446744073709551616" is not a number from 0 to 18446744073709551615`},
		{"Trace Go1.22\nGoStart dt=1 g=2 g_seq=\x00\n", `line 2: GoStart: argument g_seq: "\x00" is not a number from 0 to 18446744073709551615`},
		{"Trace Go1.22\nStack id=1 nframes=2\npc=1 func=2 file=3 line=4\n", "line 3: Stack: unexpected EOF"},
		{"Trace Go1.22\nStack id=1 nframes=2\npc=1 func=2 file=3 line=4\nStacks\n", `line 4: Stack: want argument pc, got "Stacks"`},
		{"Trace Go1.22\nStack id=1 nframes=65537\n", "line 2: Stack: 65537 frames exceed the limit of 65536"},
		{"Trace Go1.22\npc=1 func=2 file=3 line=4\n", `line 2: unknown event "pc=1"`},
		{"Trace Go1.22\nString id=1\ndata=x\n", "line 3: String: data is not quoted"},
		{"Trace Go1.22\nString id=1\ndata=\"x\n", "line 3: String: unterminated quoted data"},
		{"Trace Go1.22\nString id=1\ndata=\"x\\", "line 3: String: unterminated quoted data"},
		{"Trace Go1.22\nString id=1\ndata=`x", "line 3: String: unterminated quoted data"},
		{"Trace Go1.22\nString id=1\ndata=\"x\" y\n", `line 3: String: "y" after the data`},
		{"Trace Go1.22\nString id=1\ndata=\"\\'\"\n", "line 3: String: invalid escape sequence in data"},
		{"Trace Go1.22\nString id=1\ndata=\"\\xg0\"\n", "line 3: String: invalid escape sequence in data"},
		{"Trace Go1.22\nString id=1\ndata=\"\\400\"\n", "line 3: String: invalid escape sequence in data"},
		{"Trace Go1.22\nString id=1\ndata=\"\\ud800\"\n", "line 3: String: invalid escape sequence in data"},
		{"Trace Go1.22\nString id=1\ndata=\"\\Uffffffff\"\n", "line 3: String: invalid escape sequence in data"},
		{"Trace Go1.22\nStrings\ndata=\"x\"\n", `line 3: unknown event "data=\"x\""`},
		{"Trace Go1.22\n#widths g=2 dt=2\nGoStart dt=1 g=2 g_seq=3\n", `line 3: GoStart: #widths: no number "dt", or out of order`},
		{"Trace Go1.22\n#widths dt=11\nGoStart dt=1 g=2 g_seq=3\n",
			`line 3: GoStart: #widths: want NAME=WIDTH with a width from 1 to 10, got "dt=11"`},
		{"Trace Go1.22\n#widths dt\nGoStart dt=1 g=2 g_seq=3\n",
			`line 3: GoStart: #widths: want NAME=WIDTH with a width from 1 to 10, got "dt"`},
		{"Trace Go1.22\nGoBlock" + strings.Repeat("x", 1000), `line 2: unknown event "GoBlock` + strings.Repeat("x", 33) + `"...`},
	} {
		_, err := readText(strings.NewReader(test.text), true)
		if err == nil || err.Error() != test.want {
			t.Errorf("%.60q: got error\n%v, want\n%v", test.text, err, test.want)
		}
		if syntax := new(SyntaxError); !errors.As(err, &syntax) || syntax.Line == 0 {
			t.Errorf("%.60q: %#v is no SyntaxError with a line", test.text, err)
		}
	}
}

// TestTextReaderIgnoresWidths reads malformed #widths comments as the comments they are to a reader that wants none.
func TestTextReaderIgnoresWidths(t *testing.T) {
	got, err := readText(strings.NewReader("Trace Go1.22\n#widths x\nGoStop dt=1 reason_string=2 stack=3\n"), false)
	if want := "GoStop dt=1 reason_string=2 stack=3\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// TestTextReaderLongLines reads lines and data around their limits.
func TestTextReaderLongLines(t *testing.T) {
	const begin = "Trace Go1.22\nString id=1\n\tdata=\""
	for _, test := range []struct {
		name, text string
		data       int
		err        string
	}{
		{"data", begin + strings.Repeat(`\x00`, MaxData) + "\"\nStacks\n", MaxData, ""},
		{"too much data", begin + strings.Repeat(`\x00`, MaxData+1) + "\"\nStacks\n", 0, "line 3: String: 2097153 bytes of data or more exceed the limit of 2097152"},
		{"comment", "Trace Go1.22\n#" + strings.Repeat("x", MaxLine-1) + "\nString id=1\ndata=\"x\"\nStacks\n", 1, ""},
		{"too long", "Trace Go1.22\n#" + strings.Repeat("x", MaxLine) + "\nStacks\n", 0, "line 2: line exceeds 16777216 bytes"},
		{"too long at the end", "Trace Go1.22\n#" + strings.Repeat("x", MaxLine), 0, "line 2: line exceeds 16777216 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr, err := NewTextReader(strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			var ev Event
			err = tr.ReadEvent(&ev)
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("got error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || len(ev.Data) != test.data {
				t.Fatalf("%d bytes of data, %v", len(ev.Data), err)
			}
			if err := tr.ReadEvent(&ev); err != nil || ev.Type != EvStacks {
				t.Errorf("the next event: %v, %v", &ev, err)
			}
		})
	}
}

// endless has no end and no line feed.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += len(b)
	return len(b), nil
}

// TestTextReaderEndless reads an endless line.
func TestTextReaderEndless(t *testing.T) {
	input := &endless{}
	_, err := NewTextReader(input)
	if err == nil || input.read > 4*MaxLine {
		t.Errorf("error %v after %d bytes", err, input.read)
	}
}

// TestTextReaderSlowInput reads a long line that comes in small parts, which takes no time if it is looked at only once.
func TestTextReaderSlowInput(t *testing.T) {
	text := "Trace Go1.22\n#" + strings.Repeat("x", MaxLine-1) + "\nStacks\n"
	got, err := readText(&smallReads{strings.NewReader(text)}, false)
	if err != nil || got != "Stacks\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

// smallReads reads a few bytes at a time.
type smallReads struct{ r io.Reader }

func (s *smallReads) Read(b []byte) (int, error) { return s.r.Read(b[:min(len(b), 64)]) }

// TestTextReaderInputError passes on the errors of the underlying reader, after the events before them.
func TestTextReaderInputError(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, text := range []string{"Trace Go1.22\nStacks\n", "Trace Go1.22\nStacks\nGoSta", "Trace Go1.22\nStacks\nStack id=1 nframes=1\n",
		"Trace Go1.22\nStacks\nString id=1\n"} {
		got, err := readText(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), false)
		if got != "Stacks\n" || err != broken {
			t.Errorf("%q: got %q, error %v", text, got, err)
		}
	}
	if _, err := NewTextReader(iotest.ErrReader(broken)); err != broken {
		t.Errorf("without header: error %v", err)
	}
	if _, err := NewTextReader(emptyReader{}); err != io.ErrNoProgress {
		t.Errorf("without progress: error %v", err)
	}
}

// emptyReader reads nothing, for ever.
type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// TestTextReaderErrorStays returns an error again.
func TestTextReaderErrorStays(t *testing.T) {
	tr, err := NewTextReader(bytes.NewReader([]byte("Trace Go1.22\nx\nStacks\n")))
	if err != nil {
		t.Fatal(err)
	}
	var ev Event
	first, second := tr.ReadEvent(&ev), tr.ReadEvent(&ev)
	if first == nil || first != second {
		t.Errorf("errors %v and %v", first, second)
	}
	if tr.Line() != 2 {
		t.Errorf("%d lines were read", tr.Line())
	}
}

// TestTextReaderEndOfBuffer reads a text whose last line has no line feed, and whose end comes at different places of the
// buffer, which has other content behind it.
func TestTextReaderEndOfBuffer(t *testing.T) {
	const line = "GoStart dt=1 g=2 g_seq=33333\n"
	lines := strings.Repeat(line, 3*bufferSize/len(line))
	for shift := range len(line) {
		tr, err := NewTextReader(strings.NewReader("Trace Go1.22\n#" + strings.Repeat("x", shift) + "\n" + lines + "GoStart dt=1 g=2 g_seq=3"))
		if err != nil {
			t.Fatal(err)
		}
		var ev Event
		for err = tr.ReadEvent(&ev); err == nil; err = tr.ReadEvent(&ev) {
		}
		if err != io.EOF || ev.Args[2] != 3 {
			t.Errorf("shift %d: the last event is %s, %v", shift, &ev, err)
		}
	}
}
