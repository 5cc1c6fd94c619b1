package sets

import (
	"fmt"
	"testing"
)

func TestCache(t *testing.T) {
	made := 0
	c := NewCache(func(text string) string { made++; return "<" + text + ">" })
	text := []byte("a")
	for range 3 {
		if got := c.Of(text); got != "<a>" {
			t.Fatalf("got %q", got)
		}
	}
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	text[0] = 'b' // the memory of a note is used again
	if a, b := c.Of([]byte("a")), c.Of(text); a != "<a>" || b != "<b>" || made != 2 {
		t.Errorf("%q, %q, made %d times", a, b, made)
	}
	for i := range 3 * maxCached {
		if got, want := c.Of(fmt.Append(nil, i)), fmt.Sprintf("<%d>", i); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		if len(c.values) > maxCached {
			t.Fatalf("%d texts", len(c.values))
		}
	}
}

// TestCacheTexts has an empty text, and one that is not valid.
func TestCacheTexts(t *testing.T) {
	c := NewCache(func(text string) string { return "<" + text + ">" })
	if got := c.Of(nil); got != "<>" {
		t.Errorf("got %q", got)
	}
	if got := c.Of([]byte("a\xff")); got != "<a\uFFFD>" {
		t.Errorf("got %q", got)
	}
}
