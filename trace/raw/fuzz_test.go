package raw

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds returns small traces of every version, in the wire format and in text. Together they have every type of event.
func seeds() (wires, texts [][]byte) {
	const size = 12
	for v := range Version(255) {
		events := sample(v)
		for len(events) > 0 {
			n := min(size, len(events))
			var wire, text bytes.Buffer
			w, _ := NewWriter(&wire, v)
			tw, _ := NewTextWriter(&text, v)
			for _, ev := range events[:n] {
				w.WriteEvent(&ev)
				tw.WriteEvent(&ev)
			}
			w.Close()
			tw.Close()
			wires = append(wires, wire.Bytes())
			texts = append(texts, text.Bytes())
			events = events[n:]
		}
	}
	return wires, texts
}

// FuzzReader reads bytes as a wire trace. What it makes of them has to be written as the same bytes again, through text
// as well.
func FuzzReader(f *testing.F) {
	wires, _ := seeds()
	for _, wire := range wires {
		f.Add(wire)
		f.Add(wire[:len(wire)-1])
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := NewReader(bytes.NewReader(wire))
		if err != nil {
			return
		}
		r.KeepWidths = true
		var again, text bytes.Buffer
		w, _ := NewWriter(&again, r.Version())
		tw, _ := NewTextWriter(&text, r.Version())
		good := r.Offset()
		var ev Event
		for err = r.ReadEvent(&ev); err == nil; err = r.ReadEvent(&ev) {
			checkBounds(t, &ev, len(wire))
			if err := w.WriteEvent(&ev); err != nil {
				t.Fatalf("%+v: %v", ev, err)
			}
			if err := tw.WriteEvent(&ev); err != nil {
				t.Fatalf("%+v: %v", ev, err)
			}
			good = r.Offset()
		}
		w.Close()
		tw.Close()
		if err == io.EOF != (good == int64(len(wire))) {
			t.Errorf("%v at %d of %d", err, good, len(wire))
		}
		if !bytes.Equal(again.Bytes(), wire[:good]) {
			t.Errorf("% x was written again as\n% x", wire[:good], again.Bytes())
		}
		quick, _, _ := wireToText(wire, true, false)
		if quick != text.String() {
			t.Errorf("Copy made\n%s\nof\n%s", quick, text.String())
		}
		fromText, err := textToWire(text.Bytes(), false)
		if err != nil || !bytes.Equal(fromText, wire[:good]) {
			t.Errorf("% x was made text and then\n% x, %v", wire[:good], fromText, err)
		}
	})
}

// checkBounds looks for parts of an event that are bigger than what they were read from can tell.
func checkBounds(t *testing.T, ev *Event, input int) {
	if len(ev.Data) > input || cap(ev.Data) > 2*MaxData || 4*len(ev.Frames) > input || len(ev.Args) > maxArgs || len(ev.Widths) > input {
		t.Errorf("of %d bytes an event of %d arguments, %d frames, %d widths and %d bytes of data", input, len(ev.Args), len(ev.Frames),
			len(ev.Widths), len(ev.Data))
	}
}

// textToWire makes a wire trace of a text, with widths.
func textToWire(text []byte, recompute bool) ([]byte, error) {
	r, err := NewTextReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.KeepWidths = true
	var wire bytes.Buffer
	w, err := NewWriter(&wire, r.Version())
	if err != nil {
		return nil, err
	}
	w.RecomputeSizes = recompute
	_, err = Copy(w, r)
	if closed := w.Close(); err == nil {
		err = closed
	}
	return wire.Bytes(), err
}

// FuzzTextReader reads bytes as a text trace. What it makes of them has to be written as text that means the same, and to
// come back from the wire.
func FuzzTextReader(f *testing.F) {
	_, texts := seeds()
	for _, text := range texts {
		f.Add(text)
		f.Add(bytes.ReplaceAll(text, []byte(" "), []byte(" \t\u00a0")))
	}
	f.Add([]byte("Trace Go1.22\r\nString id=1\n# x\n data = `x` #\nString id=2\n#widths\nStacks"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := NewTextReader(bytes.NewReader(text))
		if err != nil {
			return
		}
		r.KeepWidths = true
		var again bytes.Buffer
		w, _ := NewTextWriter(&again, r.Version())
		var ev Event
		for err = r.ReadEvent(&ev); err == nil; err = r.ReadEvent(&ev) {
			checkBounds(t, &ev, 10*len(text))
			if err := w.WriteEvent(&ev); err != nil {
				t.Fatalf("%+v: %v", ev, err)
			}
		}
		w.Close()
		got, err := readText(bytes.NewReader(again.Bytes()), true)
		if _, want, _ := strings.Cut(again.String(), "\n"); err != nil || got != want {
			t.Errorf("%s is read as\n%s, %v", again.Bytes(), got, err)
		}
		wire, err := textToWire(again.Bytes(), false)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err = wireToText(wire, true, false)
		if err != nil || got != again.String() {
			t.Errorf("%s comes back from the wire as\n%s, %v", again.Bytes(), got, err)
		}
		if _, err := textToWire(again.Bytes(), true); err != nil && err != errBatch {
			t.Errorf("with sizes recomputed: %v", err)
		}
	})
}

// FuzzUnquote compares what quoted data stands for with what the standard library thinks.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`"a\n\x00\377\u00e9\U0001F600\""`, "`a\\n\r`", `"\'"`, `"\8"`, `"`, `"a"b"`, `"\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.Contains(s, "\n") || s == "" || s[0] != '"' && s[0] != '`' {
			return
		}
		want, wantErr := strconv.Unquote(s)
		got, err := unquote(nil, []byte(s))
		if err == nil && wantErr != nil {
			// White space and a comment may follow.
			if prefix, e := strconv.QuotedPrefix(s); e == nil {
				want, wantErr = strconv.Unquote(prefix)
			}
		}
		if (err == nil) != (wantErr == nil) || err == nil && string(got) != want {
			t.Errorf("%q is %q, %v; want %q, %v", s, got, err, want, wantErr)
		}
	})
}
