package goproc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestExitedOnce checks that an error for which the process has exited says so once and nothing else, and that other errors
// stay as they are.
func TestExitedOnce(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	p, err := Open(target.PID(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	target.Stop()
	twice := fmt.Errorf("process %d: setting registers: %w; and process %d: %w", p.PID(), ErrExited, p.PID(), ErrExited)
	gone := fmt.Errorf("watching process %d: %w", p.PID(), ErrNoProcess)
	for _, err := range []error{twice, gone} {
		got := p.UnlessReplaced(err)
		if want := fmt.Sprintf("process %d: the process has exited", p.PID()); got.Error() != want || !errors.Is(got, ErrExited) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	other := errors.New("other")
	if got := p.UnlessReplaced(other); got != other {
		t.Errorf("%v, want %v", got, other)
	}
	if got := p.UnlessReplaced(nil); got != nil {
		t.Errorf("%v, want nil", got)
	}
}
