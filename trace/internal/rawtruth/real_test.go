package rawtruth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	exptrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/trace/raw"
)

// eachTrace runs a test for a trace of each release, and for one with the experiment AllocFree where there is one.
func eachTrace(t *testing.T, test func(t *testing.T, rel release, wire []byte)) {
	for _, rel := range releases(t) {
		t.Run("go"+rel.version, func(t *testing.T) {
			t.Parallel()
			test(t, rel, record(t, recording{rel, 4, "1100ms", ""}))
		})
		if rel.allocFree() {
			t.Run("go"+rel.version+"-allocfree", func(t *testing.T) {
				t.Parallel()
				test(t, rel, record(t, recording{rel, 1, "0s", "traceallocfree=1"}))
			})
		}
	}
}

// wireToText returns the text of a wire trace.
func wireToText(t testing.TB, wire []byte, keepWidths bool) []byte {
	t.Helper()
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		t.Fatal(err)
	}
	r.KeepWidths = keepWidths
	var text bytes.Buffer
	w, err := raw.NewTextWriter(&text, r.Version())
	if err != nil {
		t.Fatal(err)
	}
	copyAll(t, w, r)
	return text.Bytes()
}

// textToWire returns the wire trace of a text.
func textToWire(t testing.TB, text []byte, keepWidths, recompute bool) []byte {
	t.Helper()
	r, err := raw.NewTextReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.KeepWidths = keepWidths
	var wire bytes.Buffer
	w, err := raw.NewWriter(&wire, r.Version())
	if err != nil {
		t.Fatal(err)
	}
	w.RecomputeSizes = recompute
	copyAll(t, w, r)
	return wire.Bytes()
}

// closer is an EventWriter of this package.
type closer interface {
	raw.EventWriter
	Close() error
}

func copyAll(t testing.TB, w closer, r raw.EventReader) int64 {
	t.Helper()
	n, err := raw.Copy(w, r)
	if err != nil {
		t.Fatalf("after %d events: %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRealVersions looks at what versions the releases write.
func TestRealVersions(t *testing.T) {
	want := map[int]raw.Version{
		18: raw.Go111, 20: raw.Go119, 21: raw.Go121, 22: raw.Go122, 23: raw.Go123, 24: raw.Go123, 25: raw.Go125, 26: raw.Go126,
		27: raw.Go126,
	}
	eachTrace(t, func(t *testing.T, rel release, wire []byte) {
		r, err := raw.NewReader(bytes.NewReader(wire))
		if err != nil {
			t.Fatal(err)
		}
		if r.Version() != want[rel.minor] {
			t.Errorf("trace of %s, want %s", r.Version(), want[rel.minor])
		}
	})
}

// TestRealIdentity makes text of wire traces and the same bytes again.
func TestRealIdentity(t *testing.T) {
	eachTrace(t, func(t *testing.T, rel release, wire []byte) {
		text := wireToText(t, wire, true)
		for _, recompute := range []bool{false, true} {
			again := textToWire(t, text, true, recompute)
			if at := firstDifference(again, wire); at >= 0 {
				t.Errorf("recompute=%v: %d bytes became %d, which differ from %d on", recompute, len(wire), len(again), at)
			}
		}
		if widths := bytes.Count(text, []byte("#widths ")); widths == 0 {
			if rel.minor > 18 {
				t.Error("no widths: the runtime is known to write numbers of fixed width")
			}
		} else if lines := bytes.Count(text, []byte("\n")); widths*10 > lines {
			t.Errorf("%d of %d lines are widths", widths, lines)
		}
	})
}

// TestRealWithoutWidths makes text of wire traces and the shortest wire trace of that, which has the same events.
func TestRealWithoutWidths(t *testing.T) {
	eachTrace(t, func(t *testing.T, rel release, wire []byte) {
		text := wireToText(t, wire, false)
		short := textToWire(t, text, false, false)
		if len(short) > len(wire) || rel.minor > 18 && len(short) == len(wire) {
			t.Errorf("%d bytes became %d", len(wire), len(short))
		}
		if at := firstDifference(wireToText(t, short, true), text); at >= 0 {
			t.Errorf("the text of the shortest trace differs from byte %d on", at)
		}
	})
}

// firstDifference returns where two slices begin to differ, or -1.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// TestRealText compares the text with what the toolchains themselves print.
func TestRealText(t *testing.T) {
	eachTrace(t, func(t *testing.T, rel release, wire []byte) {
		if rel.minor < 22 || !testtarget.RunsToolTrace(t, rel.version) {
			return // before Go 1.22 the toolchain prints no such text
		}
		file := filepath.Join(t.TempDir(), "trace")
		if err := os.WriteFile(file, wire, 0o666); err != nil {
			t.Fatal(err)
		}
		mode := "-d=wire"
		if rel.minor < 24 {
			mode = "-d=2"
		}
		cmd := rel.command(t, "", "tool", "trace", mode, file)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		want, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
		}
		compareLines(t, theirLines(want, rel), ourLines(wireToText(t, wire, false)))
	})
}

// theirLines returns the lines of the toolchain's text.
func theirLines(text []byte, rel release) []string {
	lines := strings.SplitAfter(string(text), "\n")
	if rel.minor == 22 {
		for i, line := range lines {
			if strings.HasPrefix(line, "CPUSample ") {
				// Its names are not in the order in which its runtime writes the values.
				lines[i] = strings.NewReplacer(" p=", " m=", " g=", " p=", " m=", " g=").Replace(line)
			}
		}
	}
	return lines
}

// ourLines returns the lines of our text without what the toolchain does not print.
func ourLines(text []byte) []string {
	_, text, _ = bytes.Cut(text, []byte("\n"))
	return slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool { return line == "\tdata=\"\"\n" })
}

func compareLines(t *testing.T, want, got []string) {
	t.Helper()
	if len(want) < 1000 {
		t.Errorf("only %d lines to compare", len(want))
	}
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			t.Fatalf("line %d: the toolchain has %q, got %q", i+1, want[i], got[i])
		}
	}
	if len(want) != len(got) {
		t.Errorf("the toolchain has %d lines, got %d", len(want), len(got))
	}
}

// TestRealEdit edits the text of a trace, so that sizes change, and reads the result as a trace.
func TestRealEdit(t *testing.T) {
	const before, after = "plain", "a longer message, \x00 and quotes \"\""
	eachTrace(t, func(t *testing.T, rel release, wire []byte) {
		text := wireToText(t, wire, true)
		edited := bytes.ReplaceAll(text, []byte(`data="plain"`), fmt.Appendf(nil, "# edited\n data=%q # here", after))
		if bytes.Equal(edited, text) {
			t.Fatal("the message is not in the trace")
		}
		was := parse(t, wire)
		for _, keepWidths := range []bool{false, true} {
			is := parse(t, textToWire(t, edited, keepWidths, true))
			if is.events != was.events || was.logs[before] == 0 || is.logs[before] != 0 || is.logs[after] != was.logs[before] {
				t.Errorf("keepWidths=%v: %d events, %d messages; they were %d and %d", keepWidths, is.events, is.logs[after], was.events, was.logs[before])
			}
		}
		// V1 batches have no size that could be wrong.
		asTold, recomputed := textToWire(t, edited, false, false), textToWire(t, edited, false, true)
		if same := bytes.Equal(asTold, recomputed); same != (rel.minor < 22) {
			t.Errorf("the sizes after the edit are right: %v", same)
		}
	})
}

// parsed is what a trace means, as far as it is compared.
type parsed struct {
	events int
	logs   map[string]int // how often each message was logged
}

func parse(t *testing.T, wire []byte) parsed {
	t.Helper()
	p := parsed{logs: make(map[string]int)}
	r, err := exptrace.NewReader(bytes.NewReader(wire))
	if err != nil {
		t.Fatal(err)
	}
	for {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatalf("golang.org/x/exp/trace: after %d events: %v", p.events, err)
		}
		p.events++
		if ev.Kind() == exptrace.EventLog {
			p.logs[ev.Log().Message]++
		}
	}
}
