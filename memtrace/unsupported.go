//go:build !linux || !(amd64 || arm64)

package memtrace

import (
	"fmt"
	"runtime"
)

func enable() error {
	return fmt.Errorf("%w: there is no support for %s/%s, only for linux/amd64 and linux/arm64", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}

// What follows is never called, because enable fails.

type alteration struct{}

var allocation, starts alteration

func getg() uintptr                { return 0 }
func watch()                       {}
func enableStarts() error          { return nil }
func changed(a *alteration) string { return "" }
