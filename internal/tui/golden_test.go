package tui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/live"
)

var update = flag.Bool("update", false, "write the golden files anew")

// scenes are what the golden frames show: how to get there.
var scenes = []struct {
	name string
	keys []string
	news any // comes at the end

	allocs bool // allocations are counted
}{
	{name: "sites"},
	{name: "states", keys: []string{"2"}},
	{name: "contention", keys: []string{"3"}},
	{name: "all waits", keys: []string{"3", "a"}},
	{name: "goroutines", keys: []string{"4", "down", "down"}},
	{name: "latency", keys: []string{"5"}},
	{name: "of a site", keys: []string{"1", "down", "enter"}},
	{name: "of a place", keys: []string{"3", "down", "enter"}},
	{name: "of a state", keys: []string{"2", "enter"}},
	{name: "one", keys: []string{"4", "/", "1", "1", "3", "enter", "enter"}},
	{name: "one that was woken", keys: []string{"4", "/", "s", "e", "r", "v", "e", "enter", "end", "enter"}},
	{name: "filter", keys: []string{"/", "s", "e", "a", "r"}},
	{name: "help", keys: []string{"?"}},
	{name: "notes", keys: []string{"w"}},
	{name: "allocations", allocs: true, keys: []string{"s", "s", "s", "s", "s", "s", "s", "s"}},
	{name: "allocations of a site", allocs: true, keys: []string{"down", "enter"}},
	{name: "ended", keys: []string{"p", "p"}, news: Ended{Text: "the program exited with status 3", Bad: true}},
}

// TestFrames compares frames with files. After a wanted change, write them anew: go test ./internal/tui -update.
func TestFrames(t *testing.T) {
	for _, size := range []struct{ w, h int }{{40, 10}, {80, 24}, {120, 40}, {200, 60}} {
		var frames strings.Builder
		for _, scene := range scenes {
			w := shop(12)
			w.health.Warnings = []event.Warning{{Text: "the probe for stops of the world could not be attached: symbol not found"}}
			target := testTarget
			if target.Allocs = scene.allocs; scene.allocs {
				w.count()
			}
			d := sitWith(t, w, target, size.w, size.h)
			d.wait(8)
			d.press(scene.keys...)
			if scene.news != nil {
				d.model.Update(scene.news)
				d.look()
			}
			screen := d.screen()
			check(t, screen, size.w, size.h)
			fmt.Fprintf(&frames, "=== %s\n%s\n", scene.name, trimmed(screen))

			d.model.theme = newTheme()
			if coloured := ansi.Strip(d.screen()); trimmed(coloured) != trimmed(screen) {
				t.Errorf("%s at %dx%d: colours change the text:\n%s\n%s", scene.name, size.w, size.h, coloured, screen)
			}
		}
		compare(t, fmt.Sprintf("frames_%dx%d.txt", size.w, size.h), frames.String())
	}
}

// trimmed removes blanks at the ends of lines.
func trimmed(screen string) string {
	lines := strings.Split(screen, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func compare(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Errorf("%s differs in line %d; with -update it is written anew. Got:\n%s\nwant:\n%s", name, i+1,
				strings.Join(gotLines[min(i, len(gotLines)):min(i+5, len(gotLines))], "\n"), strings.Join(wantLines[min(i, len(wantLines)):min(i+5, len(wantLines))], "\n"))
			return
		}
	}
}

// check fails when a frame does not fit on a screen, whatever way the terminal measures characters, or has characters that
// a terminal would obey.
func check(t *testing.T, screen string, w, h int) {
	t.Helper()
	lines := strings.Split(screen, "\n")
	if len(lines) > h {
		t.Fatalf("%d lines on a screen of %dx%d:\n%s", len(lines), w, h, screen)
	}
	for _, l := range lines {
		if n := max(ansi.StringWidth(l), ansi.StringWidthWc(l)); n > w {
			t.Fatalf("%d columns on a screen of %dx%d: %q", n, w, h, l)
		}
		for _, r := range ansi.Strip(l) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("control character %q in %q", r, l)
			}
		}
	}
}

// TestPrinted compares what scripts get with files.
func TestPrinted(t *testing.T) {
	w := shop(12)
	w.health = live.Health{Lost: 3, Warnings: []event.Warning{{Text: "hostile \x1b[31m note"}}}
	w.apply(event.Event{Kind: event.Lost, Value: 3})
	w.count()
	w.sampler.Take(live.Query{})
	w.second()
	p := w.sampler.Take(live.Query{About: live.AboutSummary, System: true, Module: testTarget.Module})
	var text, doc strings.Builder
	counting := testTarget
	counting.Allocs = true
	target := func() Target { return counting }
	if err := (&TextPrinter{Out: &text, Target: target, Rows: 5, Width: 120}).Print(p, "process 4711 has exited"); err != nil {
		t.Fatal(err)
	}
	compare(t, "printed.txt", text.String())
	if err := (&JSONPrinter{Out: &doc, Target: target, Rows: 2}).Print(p, "process 4711 has exited"); err != nil {
		t.Fatal(err)
	}
	compare(t, "printed.json", doc.String())
	if p.Interval < 900*time.Millisecond {
		t.Errorf("the picture is of %v", p.Interval)
	}
}

// BenchmarkView is a large frame in colours.
func BenchmarkView(b *testing.B) {
	w := shop(20)
	m := NewModel(testTarget, time.Second, true)
	m.Update(Resize{200, 60})
	m.Update(w.sampler.Take(m.Query()))
	for b.Loop() {
		m.View(200, 60)
	}
}
