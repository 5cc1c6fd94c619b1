package event

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestWarning(t *testing.T) {
	w := Warnf(WarnMissing, "%d probes could not be attached", 3)
	if wrapped := fmt.Errorf("process 7: %w", w); !errors.Is(wrapped, WarnMissing) || errors.Is(wrapped, WarnCost) {
		t.Error("errors.Is does not match the kind alone")
	}
	if got := WarningTexts([]Warning{w}); !slices.Equal(got, []string{"3 probes could not be attached"}) {
		t.Errorf("%q", got)
	}
}
