package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
)

// TestProfileFormats writes each type of profile in each format, to a file and to stdout.
func TestProfileFormats(t *testing.T) {
	dir := t.TempDir()
	for kind, stack := range map[string]string{"goroutine": "main.worker;runtime.gopark 3", "block": "main.worker", "wall": "main.worker;runtime.gopark 300000000"} {
		for format, test := range map[string]struct{ begin, has, note string }{
			"pprof":      {"\x1f\x8b", "", "view with: go tool pprof -top "},
			"flamegraph": {"<!doctype html>", `"title":"` + kind + ` profile of app (process 42)"`, "open "},
			"folded":     {"main.", stack, "view with: less "},
		} {
			file := filepath.Join(dir, kind+"."+format)
			r := run(t, newStream(), "profile", "app", "--type", kind, "--format", format, "-o", file)
			doc, err := os.ReadFile(file)
			if err != nil || r.status != exitDone || !strings.HasPrefix(string(doc), test.begin) || !strings.Contains(string(doc), test.has) || !strings.Contains(r.errOut, test.note+file) {
				t.Errorf("%s, %s: %v, %+v, %.200q", kind, format, err, r, doc)
			}
			r = run(t, newStream(), "profile", "app", "--type", kind, "--format", format, "-o", file, "--json", "-q")
			var done struct{ Type, Format, File string }
			if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.Type != kind || done.Format != format || done.File != file {
				t.Errorf("%s, %s: %v, %+v", kind, format, err, r)
			}
			if r := run(t, newStream(), "profile", "app", "--type", kind, "--format", format, "-o", "-", "-q"); !strings.HasPrefix(r.out, test.begin) || r.errOut != "" {
				t.Errorf("%s, %s to stdout: status %d, %.100q, %q", kind, format, r.status, r.out, r.errOut)
			}
		}
	}
}

func TestProfileDiff(t *testing.T) {
	dir := t.TempDir()
	old, file := filepath.Join(dir, "old.pb.gz"), filepath.Join(dir, "diff")
	if r := run(t, newFake(), "profile", "app", "-o", old); r.status != exitDone {
		t.Fatalf("%+v", r)
	}
	sys := newFake()
	more := sys.snap.Goroutines[3]
	sys.snap.Goroutines = append(sys.snap.Goroutines, more, more)
	compare := func(format string) string {
		r := run(t, sys, "profile", "app", "--diff", old, "--format", format, "-o", file)
		if r.status != exitDone || !strings.Contains(r.errOut, "wrote 5 goroutines in 2 distinct stacks, compared with "+old+", to "+file+";") {
			t.Errorf("%s: %+v", format, r)
		}
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(doc)
	}
	p, err := profile.ParseData([]byte(compare("pprof")))
	if err != nil {
		t.Fatal(err)
	}
	total, base := int64(0), int64(0)
	for _, s := range p.Sample {
		total += s.Value[0]
		if s.DiffBaseSample() {
			base += s.Value[0]
		}
	}
	if total != 2 || base != -3 {
		t.Errorf("the difference is %d with a base of %d, want 2 and -3", total, base)
	}
	if got, want := compare("folded"), "main.worker;runtime.gopark 3 5\n"; got != want {
		t.Errorf("folded %q, want %q", got, want)
	}
	if page := compare("flamegraph"); !strings.Contains(page, `"old":[[`) || !strings.Contains(page, `["compared with","`+old) {
		t.Error("the page has no old values")
	}
}

// TestProfileDiffBad compares with bad files: one line, and nothing is written.
func TestProfileDiffBad(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	good := path("good")
	run(t, newFake(), "profile", "app", "-o", good)
	doc, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	difference := path("difference")
	if r := run(t, newFake(), "profile", "app", "--type", "wall", "-o", path("wall")); r.status != exitDone {
		t.Fatalf("%+v", r)
	}
	sys := newFake()
	sys.snap.Goroutines = sys.snap.Goroutines[:1]
	if r := run(t, sys, "profile", "app", "--diff", good, "-o", difference); r.status != exitDone {
		t.Fatalf("%+v", r)
	}
	for name, content := range map[string]string{"truncated": string(doc[:len(doc)/2]), "empty": "", "text": "hello\nworld\n", "odd\x1b[31m\nname": "x"} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"none": "none: no such file or directory", ".": "is a directory", "truncated": "compressed data is truncated", "empty": "not a profile", "text": "not a profile",
		"odd\x1b[31m\nname": `odd\x1b[31m\x0aname: not a profile`, "wall": "wall: its sample types are samples/count, time/nanoseconds, those of the new profile are goroutine/count, wait/nanoseconds",
		"difference": "difference itself",
	} {
		for _, format := range []string{"pprof", "flamegraph", "folded"} {
			file := path("written")
			r := run(t, newFake(), "profile", "app", "--diff", path(name), "--format", format, "-o", file, "-q")
			if r.status != exitFailed || r.out != "" || strings.Count(r.errOut, "\n") != 1 || !strings.Contains(r.errOut, want) {
				t.Errorf("%s, %s: %+v", name, format, r)
			}
			if left, _ := filepath.Glob(file + "*"); len(left) > 0 {
				t.Errorf("%s, %s: %q is left", name, format, left)
			}
		}
	}
}

func TestProfileWall(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wall")
	sys := newFake()
	sys.ended = fmt.Errorf("process 42: %w", loupe.ErrExited)
	r := run(t, sys, "profile", "app", "--type", "wall", "-o", file, "--duration", "3s", "--rate", "40", "--pause")
	want := `loupe: note: odd\x1b thing
loupe: note: reduced the rate from 40 to 5 snapshots per second: a snapshot takes 40ms
loupe: note: snapshots were 4ms late on average, because the machine is busy: running goroutines may be seen less often than they run
loupe: note: the profile ends after 100ms: process 42: the process has exited
loupe: wrote 100ms of 3 goroutines in 2 snapshots in 3 distinct stacks to ` + file + "; view with: go tool pprof -top " + file + "\n"
	if r.status != exitDone || r.errOut != want {
		t.Errorf("got\n%s\nwant\n%s", r.errOut, want)
	}
	if sys.wall != (loupe.WallOptions{Duration: 3 * time.Second, Rate: 40, Pause: true}) {
		t.Errorf("options %+v", sys.wall)
	}
	r = run(t, newFake(), "profile", "app", "--type", "wall", "-o", file, "--json", "-q")
	var done wallProfileJSON
	if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.Seconds != 0.1 || done.Snapshots != 2 || done.Rate != 5 || done.Goroutines != 3 || done.Samples != 3 {
		t.Errorf("%v: %s", err, r.out)
	}
	sys = newFake()
	sys.snapErr = errors.New("no")
	if r := run(t, sys, "profile", "app", "--type", "wall", "-o", file); r.status != exitUnobservable || r.errOut != "loupe: cannot read goroutines: no\n" {
		t.Errorf("%+v", r)
	}
}
