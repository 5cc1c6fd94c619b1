package term

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"net/http.(*conn).serve", "net/http.(*conn).serve"},
		{"main.grüße·1", "main.grüße·1"},
		{"日本語", "日本語"},
		{"a\x1b[31mred", `a\x1b[31mred`},
		{"two\nlines\r", `two\x0alines\x0d`},
		{"tab\there", `tab\x09here`},
		{"del\x7f", `del\x7f`},
		{"c1 \u009b31m", `c1 \u009b31m`},
		{"bidi \u202egpj.exe", `bidi \u202egpj.exe`},
		{"isolate \u2066x\u2069", `isolate \u2066x\u2069`},
		{"zero\u200bwidth", `zero\u200bwidth`},
		{"tag \U000e0041", `tag \U000e0041`},
		{"bad \xff\xfe utf-8", `bad \xff\xfe utf-8`},
		{"cut \xe2\x80", `cut \xe2\x80`},
	} {
		if got := Escape(test.in); got != test.want {
			t.Errorf("Escape(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"main.f", "a\x1b]0;title\x07", "\u202e", "\xff", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Escape(s)
		if !utf8.ValidString(got) {
			t.Fatalf("Escape(%q) is not UTF-8: %q", s, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
				t.Fatalf("Escape(%q) lets %U through", s, r)
			}
		}
	})
}

func FuzzEscapeJSON(f *testing.F) {
	for _, s := range []string{"plain", "\u202e\u009b", "\U000e0041", "\x7f", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		doc, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Fatal(err)
		}
		escaped := EscapeJSON(doc)
		for _, r := range string(escaped) {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("EscapeJSON lets %U through: %q", r, escaped)
			}
		}
		var before, after any
		if err := json.Unmarshal(doc, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(escaped, &after); err != nil {
			t.Fatalf("EscapeJSON(%s) = %s: %v", doc, escaped, err)
		}
		if b, a := before.(map[string]any), after.(map[string]any); len(a) != len(b) {
			t.Fatalf("EscapeJSON changed %s to %s", doc, escaped)
		} else {
			for k, v := range b {
				if a[k] != v {
					t.Fatalf("EscapeJSON changed %q to %q", v, a[k])
				}
			}
		}
	})
}

func TestStyle(t *testing.T) {
	if got := (Style{}).Bad("x"); got != "x" {
		t.Errorf("plain style writes %q", got)
	}
	if got := (Style{colour: true}).Good("x"); got != "\x1b[32mx\x1b[0m" {
		t.Errorf("coloured style writes %q", got)
	}
	if StyleFor(&bytes.Buffer{}, func(string) string { return "" }) != (Style{}) {
		t.Error("what is no terminal gets colours")
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 2, "ä…"}, {"abc", 0, "abc"}} {
		if got := Clip(test.in, test.n); got != test.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", test.in, test.n, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	text := "one two three four five six seven eight nine ten eleven twelve"
	got := Wrap(text, 34, 4)
	if strings.Join(strings.Fields(got), " ") != text {
		t.Errorf("Wrap lost words: %q", got)
	}
	for i, line := range strings.Split(got, "\n") {
		limit := 34
		if i == 0 {
			limit = 30 // the caller has written the indent
		}
		if utf8.RuneCountInString(line) > limit || i > 0 && !strings.HasPrefix(line, "    ") {
			t.Errorf("line %d: %q", i, line)
		}
	}
	if Wrap(text, 0, 4) != text || Wrap(text, 10, 4) != text {
		t.Error("Wrap breaks lines without room to do so")
	}
}

func TestProgressAppearsAndGoes(t *testing.T) {
	shown := make(chan string, 16)
	p := StartProgress(writerFunc(func(b []byte) (int, error) { shown <- string(b); return len(b), nil }), "reading \x1b")
	select {
	case line := <-shown:
		if !strings.Contains(line, `reading \x1b`) {
			t.Errorf("progress shows %q", line)
		}
	case <-time.After(time.Minute):
		t.Fatal("no progress shown")
	}
	p.Stop()
	last := ""
	for len(shown) > 0 {
		last = <-shown
	}
	if last != "\r\x1b[K" {
		t.Errorf("the progress line is not removed: last write %q", last)
	}
}

func TestProgressOfShortWorkIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := StartProgress(&b, "work")
		time.Sleep(progressDelay - 1)
		p.Stop()
		if b.Len() > 0 {
			t.Errorf("short work shows %q", b.String())
		}
	})
	StartProgress(nil, "work").Stop()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestHarmless has each byte at each place of texts that are looked at in pieces of eight.
func TestHarmless(t *testing.T) {
	for b := range 256 {
		for at := range 17 {
			text := []byte("abcdefghijklmnopq")
			text[at] = byte(b)
			if got, want := harmless(string(text)), b >= ' ' && b < 0x7f; got != want {
				t.Errorf("%q: %v", text, got)
			}
		}
	}
}
