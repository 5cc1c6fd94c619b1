package inject

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestRun kills a program before and after the call by which it makes a directory.
func TestRun(t *testing.T) {
	for _, test := range []struct {
		name         string
		kill         bool
		after, there bool
	}{{"before", true, false, false}, {"after", true, true, true}, {"not killed", false, false, true}} {
		path := filepath.Join(t.TempDir(), "made")
		seen := 0
		status, err := Run(testcmd.Command(t, "mkdir", path), func(c Call) bool {
			if c.Nr != unix.SYS_MKDIRAT && c.Nr != mkdir {
				return true
			}
			seen++
			return !test.kill || c.After != test.after
		})
		if err != nil || seen == 0 || test.kill != status.Signaled() || !test.kill && status.ExitStatus() != 0 {
			t.Errorf("%s: %#x, %v, %d stops", test.name, status, err, seen)
		}
		if _, err := os.Stat(path); (err == nil) != test.there {
			t.Errorf("%s: the directory: %v", test.name, err)
		}
	}
}
