package memtrace

import (
	"context"
	"errors"
	"testing"
)

// TestBreakpoint makes a patch look as if a breakpoint were there, before and during a trace.
func TestBreakpoint(t *testing.T) {
	const breakpoint = 0xCC
	set := func() { allocation.patched[0].bytes[0] ^= breakpoint } // what is expected, instead of the code
	set()
	err := Trace(context.Background(), func(Context) { t.Error("the function was called") })
	set()
	if !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	called := false
	err = Trace(context.Background(), func(Context) { called = true; set() })
	set()
	if !errors.Is(err, ErrIncomplete) || errors.Is(err, ErrUnsupported) || !called {
		t.Error(err, called)
	}
	if err := Trace(context.Background(), func(Context) {}); err != nil {
		t.Error(err)
	}
}
