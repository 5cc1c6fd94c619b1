package writer

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/trace/raw"
)

// TestWriterTool expects go tool trace of several releases to read traces to their end.
func TestWriterTool(t *testing.T) {
	for _, test := range []struct {
		toolchain string
		version   raw.Version
	}{{"go1.24.13", raw.Go122}, {"go1.24.13", raw.Go123}, {"local", raw.Go126}} {
		t.Run(test.toolchain+"/"+test.version.String(), func(t *testing.T) {
			if test.toolchain == "local" && !testtarget.RunsToolTrace(t, strings.TrimPrefix(runtime.Version(), "go")) {
				return
			}
			s := newSimulation(7, simulations[3]).run(1000)
			data, stats := writeAll(t, s.events, Options{Version: test.version, Generation: 50 * time.Millisecond})
			path := filepath.Join(t.TempDir(), "trace")
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := testcmd.Command(t, "go", "tool", "trace", "-d=parsed", path)
			cmd.Env = append(os.Environ(), "GOTOOLCHAIN="+test.toolchain, "GOFLAGS=", "GOENV=off")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %v", cmd.Args, err)
			}
			// Each event is a line that begins with its thread.
			if n := strings.Count(string(out), "\nM="); uint64(n) < stats.Written {
				t.Errorf("%d events are shown, %d were written", n, stats.Written)
			}
		})
	}
}
