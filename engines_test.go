package loupe

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
)

// TestExitedBetweenEngines checks what is reported of a target that exits before the second engine attaches: this, and not what
// the first engine requires.
func TestExitedBetweenEngines(t *testing.T) {
	exited := fmt.Errorf("process 7: %w", ErrExited)
	_, err := Options{}.withEngine(func(engine probe.Engine) (*Session, error) {
		if _, second := engine.(*inline.Engine); second {
			return nil, exited
		}
		return nil, fmt.Errorf("process 7: attaching eBPF probes: %w", probe.ErrPermission)
	})
	if err == nil || err.Error() != exited.Error() || !errors.Is(err, ErrExited) || errors.Is(err, ErrPermission) {
		t.Errorf("%v, want %v", err, exited)
	}
}
