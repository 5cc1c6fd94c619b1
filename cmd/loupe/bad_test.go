package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestBadTargets looks at processes that are no Go programs, or whose executables are damaged: each is refused in one
// line with exit status 3, or observed all the same, and runs on as if nothing had happened.
func TestBadTargets(t *testing.T) {
	observable := map[string]bool{ // the damage is where Loupe has other ways
		"noise-buildinfo": true, "noise-dwarf": true, "noise-symbols": true,
	}
	for name, path := range testtarget.RunnableBadBinaries(t) {
		t.Run(name, func(t *testing.T) {
			target := testtarget.Start(t, path)
			pid := strconv.Itoa(target.PID())
			for _, args := range [][]string{{"goroutines", pid}, {"profile", "-q", "-o", "/dev/null", pid}, {"doctor", pid}} {
				status, stdout, stderr := run(t, args...)
				switch {
				case status == 0 && observable[name]:
				case status != 3:
					t.Errorf("loupe %q: status %d, stderr %q", args, status, stderr)
				case args[0] == "doctor":
					if !strings.Contains(stdout, "fail ") {
						t.Errorf("loupe %q does not tell what fails:\n%s", args, stdout)
					}
				case strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "loupe: process "+pid):
					t.Errorf("loupe %q: stderr %q, want one line", args, stderr)
				default:
					t.Log(strings.TrimSpace(stderr))
				}
				if !target.Running() {
					t.Fatalf("loupe %q: the target has ended", args)
				}
			}
			target.Stop()
		})
	}
}
