package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestProfileFormats writes profiles of the sample program in each format, alone and compared with an older one.
func TestProfileFormats(t *testing.T) {
	sample, dir := strconv.Itoa(startSample(t)), t.TempDir()
	types := append(testtarget.Rare(t, "wall"), "goroutine")
	if status, _, _ := run(t, "trace", sample, "--duration", "100ms"); status == 0 {
		types = append(types, "block")
	}
	for _, kind := range types {
		duration := time.Second
		write := func(name string, more ...string) string {
			t.Helper()
			file := filepath.Join(dir, name)
			args := append([]string{"profile", sample, "--type", kind, "-o", file}, more...)
			if kind != "goroutine" {
				args = append(args, "--duration", duration.String())
			}
			status, stdout, stderr := run(t, args...)
			doc, err := os.ReadFile(file)
			if err != nil || status != 0 || stdout != "" || !strings.Contains(stderr, " to "+file+"; ") {
				t.Fatalf("%q: status %d, %q, %q, %v", args, status, stdout, stderr, err)
			}
			return string(doc)
		}
		// packs writes a profile that has a function which the sample program calls all the time.
		packs := func(name string, more ...string) (doc string) {
			t.Helper()
			testcmd.UntilSeen(t, time.Second, func(d time.Duration) error {
				duration = d
				if doc = write(name, more...); !strings.Contains(doc, "internal/demo.packOrders") {
					return fmt.Errorf("%s, %q: %.500q", kind, more, doc)
				}
				return nil
			})
			return doc
		}
		write("old")
		old := filepath.Join(dir, "old")
		for _, diff := range [][]string{nil, {"--diff", old}} {
			write("pprof", diff...)
			top, err := testcmd.Combined(testcmd.Command(t, "go", "tool", "pprof", "-top", "-symbolize=none", filepath.Join(dir, "pprof")))
			if err != nil || !strings.Contains(string(top), "Showing nodes accounting for") {
				t.Errorf("%s: %v: %s", kind, err, top)
			}
			page := packs("html", append(diff, "--format", "flamegraph")...)
			if !strings.HasPrefix(page, "<!doctype html>") || !strings.HasSuffix(page, "</html>\n") || !strings.Contains(page, kind+" profile of ") ||
				strings.Contains(page, `"old":[`) != (diff != nil) {
				t.Errorf("%s, %q: a page of %d bytes", kind, diff, len(page))
			}
			text := packs("txt", append(diff, "--format", "folded")...)
			for line := range strings.Lines(text) {
				fields := strings.Fields(line)
				values := fields[len(fields)-1-len(diff)/2:]
				for _, v := range values {
					if _, err := strconv.ParseInt(v, 10, 64); err != nil {
						t.Errorf("%s, %q: line %q", kind, diff, line)
					}
				}
			}
		}
	}
	status, _, stderr := run(t, "profile", sample, "--diff", filepath.Join(dir, "html"), "-o", filepath.Join(dir, "none"))
	if _, err := os.Stat(filepath.Join(dir, "none")); status != 1 || !strings.HasPrefix(stderr, "loupe: cannot read profile ") || strings.Count(stderr, "\n") != 1 || err == nil {
		t.Errorf("a page as the old profile: status %d, %q, %v", status, stderr, err)
	}
}
