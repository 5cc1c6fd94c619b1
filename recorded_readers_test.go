package loupe_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestRecordedReaders records programs of the releases whose tools read what can be written. The recording has the format
// of the release, go tool trace of the release itself reads it to its end, and its times are those of the wall clock: what
// the program does when it is told to happens after it was told and before it answers.
func TestRecordedReaders(t *testing.T) {
	oneEngine(t)
	for _, release := range testtarget.Versions() {
		if minorOf(t, release) < 22 {
			continue
		}
		t.Run("go"+release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
			var begin, end time.Time
			events, _ := observeWhile(t, target.PID(), event.KindsDefault, func() {
				time.Sleep(20 * time.Millisecond)
				begin = time.Now()
				target.Command(fmt.Sprintf("trace %s 1", filepath.Join(t.TempDir(), "trace")))
				end = time.Now()
				time.Sleep(20 * time.Millisecond)
			})
			var file bytes.Buffer
			version := export.VersionFor("go" + release)
			sink, err := goFormat(t).New(&file, export.Options{Kinds: event.KindsDefault, Version: version})
			if err != nil {
				t.Fatal(err)
			}
			const enough = 20_000 // go tool trace takes seconds for more
			for i := range events[:min(len(events), enough)] {
				if err := sink.Write(&events[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("go 1.%d trace", version); !strings.HasPrefix(file.String(), want) {
				t.Errorf("the header is %.16q, want %q", file.String(), want)
			}
			if testtarget.RunsToolTrace(t, release) {
				expectTool(t, release, file.Bytes())
			}
			first, last := creations(t, file.Bytes())
			t.Logf("told at %v; first creation %v later, last %v before the answer", begin, first.Sub(begin), end.Sub(last))
			if first.Before(begin) || last.After(end) || !first.Before(last) {
				t.Errorf("goroutines are created from %v to %v, the program was told at %v and answered at %v", first, last, begin, end)
			}
		})
	}
}

// goFormat returns the format of Go execution traces.
func goFormat(t *testing.T) *export.Format {
	t.Helper()
	f, err := export.Formats().Find(export.Go)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// expectTool expects go tool trace of a release to read a trace.
func expectTool(t *testing.T, release string, data []byte) {
	t.Helper()
	out := toolOutput(t, release, data)
	if n := strings.Count(out, "GoCreate") + strings.Count(out, "NotExist->"); n == 0 {
		t.Errorf("go tool trace shows no creation: %.1000s", out)
	}
}

// toolOutput returns the events that go tool trace of a release prints.
func toolOutput(t *testing.T, release string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recorded")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Command(t, "go", "tool", "trace", toolFlag(t, release), path)
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=go"+release, "GOFLAGS=", "GOENV=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return string(out)
}

// toolFlag returns the flag that makes go tool trace print events.
func toolFlag(t *testing.T, release string) string {
	if minorOf(t, release) < 24 {
		return "-d=1"
	}
	return "-d=parsed"
}

// creations returns the times of the first and the last creation of a goroutine in a trace by the wall clock.
func creations(t *testing.T, data []byte) (first, last time.Time) {
	t.Helper()
	r, err := xtrace.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var wall time.Duration // of the trace's time 0; before Go 1.25 traces of Loupe count since the Unix epoch
	for {
		ev, err := r.ReadEvent()
		if err == io.EOF {
			return first, last
		}
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind() {
		case xtrace.EventSync:
			if c := ev.Sync().ClockSnapshot; c != nil {
				wall = time.Duration(c.Wall.UnixNano() - int64(c.Trace))
			}
		case xtrace.EventStateTransition:
			st := ev.StateTransition()
			if st.Resource.Kind != xtrace.ResourceGoroutine || !createdByMain(&ev) {
				continue
			}
			if from, _ := st.Goroutine(); from != xtrace.GoNotExist {
				continue
			}
			last = time.Unix(0, int64(ev.Time())+int64(wall))
			if first.IsZero() {
				first = last
			}
		}
	}
}

// createdByMain reports whether the stack of an event has a function of package main.
func createdByMain(ev *xtrace.Event) bool {
	for f := range ev.Stack().Frames() {
		if strings.HasPrefix(f.Func, "main.") {
			return true
		}
	}
	return false
}
