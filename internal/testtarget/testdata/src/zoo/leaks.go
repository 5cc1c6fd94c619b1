//go:build go1.27
// +build go1.27

package main

import (
	"fmt"
	"io"
	"runtime/pprof"
)

func init() { commands["leaks"] = leaks }

// leaks takes a leak profile, which leaves leaked goroutines in a status of
// their own until the next collection.
func leaks([]string) string {
	profile := pprof.Lookup("goroutineleak")
	if profile == nil {
		return "error no goroutine leak profile"
	}
	if err := profile.WriteTo(io.Discard, 0); err != nil {
		return "error " + err.Error()
	}
	return fmt.Sprintf("leaks %d", profile.Count())
}
