package testsets

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/internal/testsets/parcel"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// engines returns a new engine by name.
var engines = map[string]func() probe.Engine{
	"uprobe": func() probe.Engine { return uprobe.New(uprobe.Options{}) },
	"inline": func() probe.Engine { return inline.New(nil, "") },
}

// depots returns the builds of target depot: releases that pass arguments in either way, both versions of the library, with
// DWARF and without.
func depots(t *testing.T) []testtarget.Spec {
	var specs []testtarget.Spec
	for _, release := range testtarget.Ends(t, testtarget.Among(t, "1.16.15", "1.17.13", "1.21.13", testtarget.Latest())) {
		for version, dir := range parcel.Versions {
			module := parcel.Module + " " + version + " " + dir
			for _, stripped := range []bool{false, true} {
				specs = append(specs, testtarget.Spec{Program: "depot", Go: release, Module: module, Stripped: stripped})
			}
		}
	}
	return specs
}

// stripped returns those without DWARF.
func stripped(t *testing.T) []testtarget.Spec {
	return slices.DeleteFunc(depots(t), func(s testtarget.Spec) bool { return !s.Stripped })
}

// each runs a test with each engine on each build.
func each(t *testing.T, specs []testtarget.Spec, test func(t *testing.T, target *testtarget.Process, engine probe.Engine)) {
	for name, engine := range engines {
		if name == "uprobe" && os.Getuid() != 0 {
			t.Log("eBPF needs root")
			continue
		}
		for _, spec := range specs {
			t.Run(name+"/"+spec.String(), func(t *testing.T) {
				test(t, testtarget.Start(t, testtarget.Build(t, spec)), engine())
			})
		}
	}
}

// observed is a session whose events are read.
type observed struct {
	*probe.Session
	t    *testing.T
	done sync.WaitGroup
}

// observe begins to observe a target. The session ends with the test.
func observe(t *testing.T, target *testtarget.Process, engine probe.Engine, want probe.Want) *observed {
	t.Helper()
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want.BufferBytes = 4 << 20
	s, err := probe.OpenRunning(context.Background(), p, engine, want)
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{Session: s, t: t}
	o.done.Go(func() {
		for range s.Events() {
		}
	})
	t.Cleanup(o.end)
	return o
}

// end ends the session, after all that was reported has arrived.
func (o *observed) end() {
	if err := o.Detach(); err != nil {
		o.t.Error(err)
	}
	o.done.Wait()
	if err := o.Close(); err != nil {
		o.t.Error(err)
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}
