package inline

import (
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// TestManyForeign has other tracers come and go more often than is listed: the last warning says so.
func TestManyForeign(t *testing.T) {
	p := &places{}
	for range 3 * maxNotes {
		p.warn([]string{"runtime.gopark+0x4"}, "a breakpoint at %s")
	}
	p.warn(nil, "%s")
	got := event.WarningTexts(p.noted())
	if len(got) != maxNotes+1 || got[0] != "a breakpoint at runtime.gopark+0x4" || !strings.Contains(got[maxNotes], "too often") {
		t.Errorf("%d warnings, the last one %q", len(got), got[len(got)-1])
	}
}
