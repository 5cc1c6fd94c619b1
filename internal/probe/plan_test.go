package probe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// expectedSlow are the functions in which the kernel does not emulate the probed instruction, by release: opt-in kinds all
// of them.
func expectedSlow(arch string, minor int) []string {
	var list []string
	if arch == testtarget.AMD64 {
		if minor < 17 {
			list = append(list, "runtime.reentersyscall")
		}
		if minor < 21 {
			list = append(list, "runtime.entersyscallblock")
		}
		list = append(list, "runtime.makechan")
	}
	return list
}

// TestPlanEveryRelease finds the places of all probes in executables of every release, stripped and not.
func TestPlanEveryRelease(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "tiny") {
		var heaps []uint64 // how far the size of the heap is from another variable
		for _, stripped := range []bool{false, true} {
			spec.Stripped = stripped
			t.Run(spec.String(), func(t *testing.T) {
				exe := probetest.Open(t, spec)
				bin := exe.Binary()
				minor := bin.Version().Minor
				plan, warnings, err := NewPlan(exe, Want{Kinds: event.KindsAll, StackDepth: 32, ProfilerMap: "map"})
				if err != nil {
					t.Fatal(err)
				}
				if len(warnings) > 0 {
					t.Errorf("warnings %q", warnings)
				}
				var slow []string
				for _, p := range plan.Probes {
					if !p.Sites[0].At.Emulated {
						slow = append(slow, p.Sites[0].Func)
					}
				}
				if want := expectedSlow(spec.Arch, minor); !slices.Equal(slow, want) {
					t.Errorf("not emulated: %q, want %q", slow, want)
				}
				checkPlan(t, plan, minor)
				heaps = append(heaps, plan.Config.HeapLive-bin.Globals().Allm)
			})
		}
		if len(heaps) != 2 || heaps[0] != heaps[1] { // the linker lays out data alike, with a symbol table and without
			t.Errorf("%s: the size of the heap is at distances %#x", spec, heaps)
		}
	}
}

// checkPlan checks that every probe of the release has its places.
func checkPlan(t *testing.T, plan *Plan, minor int) {
	t.Helper()
	places := map[string]int{}
	for _, p := range plan.Probes {
		places[p.Program] = len(p.Sites)
	}
	for _, d := range runtimeProbes {
		got := places[d.Program]
		switch {
		case !d.inRelease(minor) && got > 0:
			t.Errorf("probe %s is not for go1.%d and has %d places", d.Program, minor, got)
		case d.inRelease(minor) && !d.Kinds.Intersect(plan.Want.Kinds).IsEmpty() && !d.Quiet && got == 0:
			t.Errorf("probe %s has no place", d.Program)
		}
	}
	// park_m and the network poller's wake-ups in the scheduler, injectglist, the collector's workers, C threads.
	if n := places["casgstatus"] + places["borrow_casgstatus"]; n < 8 || n > 14 {
		t.Errorf("%d places change a state past the other probes", n)
	}
	if n := places["newproc_runqput"] + places["newproc1_casgstatus"]; n < 1 || n > 2 {
		t.Errorf("%d places create goroutines", n)
	}
}

// TestPlanKinds attaches only what is asked for.
func TestPlanKinds(t *testing.T) {
	exe := probetest.Open(t, testtarget.Spec{Program: "tiny"})
	for _, test := range []struct {
		want   Want
		probes string
	}{
		{Want{Kinds: event.KindsOf(event.GoDestroy)}, "[borrow_casgstatus goexit0]"},
		{Want{Kinds: event.KindsOf(event.STWBegin, event.STWEnd)}, "[stopTheWorldWithSema startTheWorldWithSema]"},
		{Want{Kinds: event.KindsOf(event.GoStart, event.GoStop), MinBlock: 1}, ""},
	} {
		plan, _, err := NewPlan(exe, test.want)
		if test.probes == "" {
			if err == nil {
				t.Errorf("%+v: no error", test.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range plan.Probes {
			names = append(names, p.Program)
		}
		if got := fmt.Sprint(names); got != test.probes {
			t.Errorf("%+v: %s, want %s", test.want, got, test.probes)
		}
	}
}

// TestDeclaredKinds compares the probes with the table of kinds: each kind of a live process has a probe, except those that
// Loupe itself makes and GoSwitch, which is only counted.
func TestDeclaredKinds(t *testing.T) {
	kinds := event.KindsOf(event.GoStatus, event.GoSwitch).Union(event.GroupStream.Kinds())
	for _, d := range runtimeProbes {
		kinds = kinds.Union(d.Kinds)
	}
	if kinds != event.KindsAll {
		t.Errorf("got  %s\nwant %s", kinds, event.KindsAll)
	}
}
