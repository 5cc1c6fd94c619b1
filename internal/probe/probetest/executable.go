// Package probetest provides what the tests of probes share: executables for which probe.NewPlan makes plans, without a process
// that runs them. It does not import package probe, whose own tests use it.
package probetest

import (
	"testing"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// Executable is an executable that no process runs. It implements probe.Program.
type Executable struct{ bin *gobin.Binary }

// Open builds the executable of a spec, as testtarget.Build does, and opens it until the test ends.
func Open(tb testing.TB, spec testtarget.Spec) Executable {
	tb.Helper()
	bin, err := gobin.Open(testtarget.Build(tb, spec))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { bin.Close() })
	return Executable{bin}
}

func (e Executable) PID() int                                 { return 1 }
func (e Executable) ImagePath() string                        { return e.bin.Path() }
func (e Executable) Binary() *gobin.Binary                    { return e.bin }
func (e Executable) Layout() *layout.Layout                   { return e.bin.Layout() }
func (e Executable) LoadBias() uint64                         { return 0 }
func (e Executable) SystemStarts() []uint64                   { return nil }
func (e Executable) SignalStacks() ([]ptrace.Interval, error) { return nil, nil }
func (e Executable) Ended() error                             { return nil }

// StableMemory returns no memory: no process runs the executable.
func (e Executable) StableMemory() (goproc.StableMemory, error) { return goproc.StableMemory{}, nil }
