package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestFewFiles runs commands that may open few files: each works or ends with one line that says what to do.
func TestFewFiles(t *testing.T) {
	sample := fmt.Sprint(startSample(t))
	for _, limit := range []int{3, 4, 5, 6, 7, 8, 12, 20, 63, 64, 80} {
		for _, args := range []string{"version", "ps -q", "doctor -q", "goroutines " + sample, "demo --duration 100ms", "profile -o FILE " + sample,
			"trace --duration 100ms --engine inline " + sample, "record -o FILE --duration 100ms --engine uprobe " + sample} {
			args = strings.ReplaceAll(args, "FILE", filepath.Join(t.TempDir(), "f"))
			cmd := testcmd.Command(t, "sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit), loupe}, strings.Fields(args)...)...)
			status, _, stderr := finish(t, cmd)
			switch {
			case status == 0 && limit >= 64:
			case strings.Count(stderr, "\n") == 1 && strings.HasPrefix(stderr, "loupe: ") && strings.HasSuffix(stderr, "; raise the limit of open files: ulimit -n 4096\n"):
			default:
				t.Errorf("%d files, loupe %s: status %d, stderr %.300q", limit, args, status, stderr)
			}
		}
	}
}
