package ptrace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestARM64 runs what needs no ptrace on an emulated arm64, whose user mode knows signal frames but no tracers: the way
// back from a foothold, and the arithmetic.
func TestARM64(t *testing.T) {
	testtarget.Whole(t, "code of arm64 in an emulator")
	testtarget.Needs(t, "qemu-aarch64", "qemu-user")
	exe := filepath.Join(t.TempDir(), "ptrace.test")
	build := testcmd.Within(t, 0, "go", "test", "-c", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := testcmd.Combined(build); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := testcmd.Within(t, 0, "qemu-aarch64", exe, "-test.v", "-test.run=^(TestWayBack|TestIntervals|TestFindGap|TestRooms)$")
	run.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1") // no signals in the middle of foreign code
	out, err := testcmd.Combined(run)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestWayBack") {
		t.Errorf("%v\n%s", err, out)
	}
}
