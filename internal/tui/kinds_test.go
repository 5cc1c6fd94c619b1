package tui

import (
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/eventtest"
	"github.com/loupe-go/loupe/internal/report"
)

// TestEveryKind expects a line in the history of a goroutine for each kind of the table. Kinds without words of their own
// show their name and their fields.
func TestEveryKind(t *testing.T) {
	worded := event.KindsGoroutine.Union(event.KindsSyscall)
	for _, k := range eventtest.All().List() {
		e := eventtest.Filled(k)
		line := happened(theme{}, e.Time, nil, &e, "", 200)
		for _, want := range []string{k.String(), report.EventDetail(&e)} {
			if !worded.Has(k) && !strings.Contains(line, want) {
				t.Errorf("%v: no %q: %s", k, want, line)
			}
		}
		if strings.TrimSpace(line) == "" || e.Reason != "" && !strings.Contains(line, e.Reason) {
			t.Errorf("%v: %q", k, line)
		}
	}
}
