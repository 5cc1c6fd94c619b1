package tracefile

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/trace"
)

// copied makes text or wire of a file, and returns the path of the result.
func copied(t *testing.T, path string, exact bool, verb func(context.Context, *Output, *Input, bool) (Copied, error)) string {
	t.Helper()
	return made(t, func(out *Output) error {
		done, err := verb(t.Context(), out, open(t, path), exact)
		if err == nil && done.Events == 0 {
			t.Errorf("%s: no events", path)
		}
		return err
	})
}

func contentOf(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTextAndBack(t *testing.T) {
	for _, r := range releases(t) {
		path := record(t, r)
		text := copied(t, path, true, ToText)
		if got := contentOf(t, copied(t, text, true, ToWire)); !bytes.Equal(got, contentOf(t, path)) {
			t.Errorf("%v: with --exact another trace comes back", r)
		}
		plain := copied(t, path, false, ToText)
		if bytes.Contains(contentOf(t, plain), []byte("#widths")) {
			t.Errorf("%v: widths are kept without --exact", r)
		}
		again := copied(t, plain, false, ToWire)
		if report, err := Validate(t.Context(), open(t, again), trace.ValidateOptions{}); err != nil || !report.Valid() || report.Events < 1000 {
			t.Errorf("%v: the trace that comes back: %v, %v", r, report, err)
		}
		if twice := copied(t, again, false, ToText); bytes.Count(contentOf(t, twice), []byte("\n")) != bytes.Count(contentOf(t, plain), []byte("\n")) {
			t.Errorf("%v: what comes back has other lines", r)
		}
	}
}

// TestEditedText removes events from a text: sizes are computed anew, unless they are to be exact.
func TestEditedText(t *testing.T) {
	text := contentOf(t, copied(t, record(t, latest(t)), false, ToText))
	var edited bytes.Buffer
	removed := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "HeapAlloc ") {
			removed++
			continue
		}
		edited.WriteString(line)
	}
	if removed == 0 {
		t.Fatal("no event to remove")
	}
	for _, exact := range []bool{false, true} {
		path := made(t, func(out *Output) error {
			in, err := Open(t.Context(), Stdin, bytes.NewReader(edited.Bytes()))
			if err != nil {
				return err
			}
			_, err = ToWire(t.Context(), out, in, exact)
			return err
		})
		report, err := Validate(t.Context(), open(t, path), trace.ValidateOptions{})
		if err != nil || report.Valid() == exact {
			t.Errorf("exact %v: %v, %v", exact, report, err)
		}
	}
}
