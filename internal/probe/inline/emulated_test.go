package inline

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestARM64 runs the tests of this package as arm64 code under qemu's user-mode emulator: the probes' blob, the stubs and
// the reader. It shows that the code does what it should, not how a real processor orders memory.
func TestARM64(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		return // the tests themselves run there
	}
	testtarget.Whole(t, "code of arm64 in an emulator")
	exe := filepath.Join(t.TempDir(), "inline.test")
	build := testcmd.Within(t, 0, "go", "test", "-c", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := testcmd.Combined(build); err != nil {
		t.Fatalf("building for arm64: %v\n%s", err, out)
	}
	// TestPlaces only reads executables, of both architectures, and may have to build them first.
	run := testcmd.Within(t, 0, "qemu-aarch64", exe, "-test.v", "-test.timeout=30m", "-test.skip=^TestPlaces$")
	// The emulator has no /proc/self/exe by which TestMain could start again without the runtime's signals.
	run.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	out, err := testcmd.Combined(run)
	if err != nil {
		t.Fatalf("running for arm64 (the Debian package qemu-user has qemu-aarch64): %v\n%s", err, failures(string(out)))
	}
	if n := strings.Count(string(out), "\n--- PASS: "); n < 20 {
		t.Errorf("only %d tests ran\n%s", n, out)
	}
}

// failures returns what tests say that did not pass.
func failures(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "=== RUN") && !strings.Contains(line, "--- PASS") {
			b.WriteString(line)
		}
	}
	return b.String()
}
