package discover

import (
	"os"
	"strings"
	"testing"
)

// TestTracepointsUnavailable wants the reason why tracepoints are unavailable.
func TestTracepointsUnavailable(t *testing.T) {
	if os.Getenv("LOUPE_TEST_NAMESPACE") == "" {
		if os.Getuid() != 0 {
			t.Skip("requires root, which loses its capabilities")
		}
		runAgain(t, "setpriv", "--inh-caps=-all", "--bounding-set=-all", os.Args[0])
		return
	}
	f := follow(t, New(Options{NoConnector: true}))
	if s := f.Stats(); s.Source != SourcePolling || !strings.Contains(s.Why, "; tracepoints: requires CAP_BPF, CAP_PERFMON and Linux 5.8: ") {
		t.Errorf("%q: %q", s.Source, s.Why)
	}
}
