package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestProfileFormats writes profiles of the sample program in each format, alone and compared with an older one.
func TestProfileFormats(t *testing.T) {
	sample, dir := strconv.Itoa(startSample(t)), t.TempDir()
	types := map[string][]string{"goroutine": nil, "wall": {"--duration", "1s"}}
	if status, _, _ := run(t, "trace", sample, "--duration", "100ms"); status == 0 {
		types["block"] = []string{"--duration", "1s"}
	}
	for kind, flags := range types {
		write := func(name string, more ...string) string {
			t.Helper()
			file := filepath.Join(dir, name)
			args := append(append([]string{"profile", sample, "--type", kind, "-o", file}, flags...), more...)
			status, stdout, stderr := run(t, args...)
			doc, err := os.ReadFile(file)
			if err != nil || status != 0 || stdout != "" || !strings.Contains(stderr, " to "+file+"; ") {
				t.Fatalf("%q: status %d, %q, %q, %v", args, status, stdout, stderr, err)
			}
			return string(doc)
		}
		write("old")
		old := filepath.Join(dir, "old")
		for _, diff := range [][]string{nil, {"--diff", old}} {
			write("pprof", diff...)
			top, err := testcmd.Combined(testcmd.Command(t, "go", "tool", "pprof", "-top", "-symbolize=none", filepath.Join(dir, "pprof")))
			if err != nil || !strings.Contains(string(top), "Showing nodes accounting for") {
				t.Errorf("%s: %v: %s", kind, err, top)
			}
			page := write("html", append(diff, "--format", "flamegraph")...)
			if !strings.HasPrefix(page, "<!doctype html>") || !strings.HasSuffix(page, "</html>\n") || !strings.Contains(page, kind+" profile of ") ||
				!strings.Contains(page, "internal/demo.packOrders") || strings.Contains(page, `"old":[`) != (diff != nil) {
				t.Errorf("%s, %q: a page of %d bytes", kind, diff, len(page))
			}
			text := write("txt", append(diff, "--format", "folded")...)
			for line := range strings.Lines(text) {
				fields := strings.Fields(line)
				values := fields[len(fields)-1-len(diff)/2:]
				for _, v := range values {
					if _, err := strconv.ParseInt(v, 10, 64); err != nil {
						t.Errorf("%s, %q: line %q", kind, diff, line)
					}
				}
			}
			if !strings.Contains(text, "internal/demo.packOrders") {
				t.Errorf("%s, %q: %.500q", kind, diff, text)
			}
		}
	}
	status, _, stderr := run(t, "profile", sample, "--diff", filepath.Join(dir, "html"), "-o", filepath.Join(dir, "none"))
	if _, err := os.Stat(filepath.Join(dir, "none")); status != 1 || !strings.HasPrefix(stderr, "loupe: cannot read profile ") || strings.Count(stderr, "\n") != 1 || err == nil {
		t.Errorf("a page as the old profile: status %d, %q, %v", status, stderr, err)
	}
}
