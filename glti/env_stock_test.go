//go:build !loupe_glti

package glti

import (
	"errors"
	"testing"
)

// TestUnavailable calls the methods that a stock program lacks.
func TestUnavailable(t *testing.T) {
	reports := collectReports(t)
	env := NewEnv("capabilities")
	defer env.Close()
	if BuiltBy() != "go" || !errors.Is(ErrNotBuilt, ErrUnavailable) {
		t.Errorf("built by %q", BuiltBy())
	}
	g := env.GetG()
	for name, call := range map[string]func() bool{ // whether there is no result
		"FuncForName":              func() bool { return env.FuncForName("fmt.Println") == nil },
		"GetGls":                   func() bool { return env.GetGls(g) == nil },
		"GetGlsPtr":                func() bool { return env.GetGlsPtr(g) == 0 },
		"SetGls":                   func() bool { env.SetGls(g, 1); return env.GetGls(g) == nil },
		"SetGlsPtr":                func() bool { env.SetGlsPtr(g, 1); return env.GetGlsPtr(g) == 0 },
		"InheritGls":               func() bool { env.InheritGls(true); return true },
		"RegisterEvUnhandledPanic": func() bool { env.RegisterEvUnhandledPanic(func(interface{}) {}); return true },
	} {
		for i := 0; i < 2; i++ {
			if !call() {
				t.Errorf("%s has a result", name)
			}
		}
		n := 0
		for _, r := range reports() {
			if r.Method == name {
				n++
				if !errors.Is(r.Err, ErrNotBuilt) || r.Agent != "capabilities" {
					t.Errorf("report %v", r)
				}
			}
		}
		if n != 1 || capability(name).Available {
			t.Errorf("%s: %d reports, want 1; available: %v", name, n, capability(name).Available)
		}
	}
	if err := env.CountAllocs(true); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("CountAllocs: %v", err)
	}
	if a, ok := env.Allocs(g); ok || a != (Allocations{}) || env.AllocsEnded() != (Allocations{}) {
		t.Errorf("Allocs: %+v, %t", a, ok)
	}
	if err := env.ReflectCall(1, 2, 3); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("ReflectCall: %v", err)
	}
	if _, err := env.Trace.CountEvent(EvGoStart); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("CountEvent: %v", err)
	}
	if _, err := env.Trace.HandleRaw(EvGoStart, func(*RawRecord) {}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("HandleRaw: %v", err)
	}
}
