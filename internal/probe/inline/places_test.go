package inline

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPlaces checks which bytes engine inline replaces, in every release and each way to build: never the first instruction
// of a function, nor a return on amd64, where other tracers put their breakpoints; and a breakpoint on any other place that
// comes and goes does no harm. No probe is left out.
func TestPlaces(t *testing.T) {
	var specs []testtarget.Spec
	for _, spec := range testtarget.Builds(t, "tiny") {
		specs = append(specs, spec)
		if !spec.PIE {
			spec.Stripped = true
			specs = append(specs, spec)
		}
	}
	for _, version := range testtarget.Versions() {
		specs = append(specs, testtarget.Spec{Program: "mixer", Go: version, Arch: testtarget.AMD64},
			testtarget.Spec{Program: "selftrace", Go: version, Arch: testtarget.AMD64})
	}
	for _, version := range testtarget.Among(t, "1.12.17", "1.16.15", "1.20.14", testtarget.Latest()) {
		specs = append(specs, testtarget.Spec{Program: "mixer", Go: version, Arch: testtarget.AMD64, Cgo: true})
	}
	for _, spec := range specs {
		t.Run(spec.String(), func(t *testing.T) {
			exe, e := probetest.Open(t, spec), New(nil, "")
			var err error
			if e.plan, _, err = probe.NewPlan(exe, probe.Want{Kinds: event.KindsAll, StackDepth: 32}); err != nil {
				t.Fatal(err)
			}
			if err := e.choose(); err != nil || len(e.warnings) > 0 {
				t.Fatalf("%v, warnings %q", err, e.warnings)
			}
			for _, s := range e.spots {
				checkPlaceOf(t, e.plan, s)
			}
		})
	}
}

func checkPlaceOf(t *testing.T, plan *probe.Plan, s spot) {
	t.Helper()
	entry, code, err := plan.Code(s.site)
	if err != nil {
		t.Fatal(err)
	}
	list, err := insn.Instructions(insn.Code{Arch: plan.Arch(), Entry: entry, Bytes: code})
	if err != nil {
		t.Fatal(err)
	}
	replaced := slices.DeleteFunc(list, func(i insn.Instruction) bool { return i.Next() <= s.d.Start || i.PC >= s.d.End })
	for _, i := range replaced {
		if i.PC == entry {
			t.Errorf("the first instruction of %s is replaced", s.site.Func)
		}
		if i.Flow == insn.FlowReturn && plan.Arch() == insn.AMD64 {
			t.Errorf("a return of %s is replaced, at +%#x", s.site.Func, i.PC-entry)
		}
	}
	if len(replaced) != 1 {
		t.Errorf("%d instructions of %s are replaced, at +%#x", len(replaced), s.site.Func, s.d.Start-entry)
	}
	// What the kernel writes when a foreign probe is removed: a byte on amd64, an instruction on arm64.
	at := s.d.Start&^3 + 1<<20
	if s.d.Fixed != 0 {
		at = s.d.Fixed
	}
	jump, err := s.d.Jump(at)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Arch() == insn.AMD64 && jump[0] != s.d.Old[0] && !bytes.Equal(jump[1:], s.d.Old[1:]) {
		t.Errorf("%s at +%#x: the jump %x replaces %x", s.site.Func, s.d.Start-entry, jump, s.d.Old)
	}
}

// TestNoOtherPlace leaves a probe out rather than replace the first instruction of its function.
func TestNoOtherPlace(t *testing.T) {
	exe := probetest.Open(t, testtarget.Spec{Program: "tiny", Arch: testtarget.AMD64})
	want := probe.Want{Kinds: event.KindsOf(event.GoBlock, event.GoSyscallEnd)}
	e := New(nil, "")
	var err error
	if e.plan, _, err = probe.NewPlan(exe, want); err != nil {
		t.Fatal(err)
	}
	for i := range e.plan.Probes {
		p := e.plan.Probes[i]
		for j, site := range p.Sites {
			entry, _, err := e.plan.Code(site)
			if err != nil {
				t.Fatal(err)
			}
			p.Sites[j] = probe.Site{Func: site.Func, Addr: entry, At: insn.Site{PC: entry, GReg: site.At.GReg}}
		}
		spots, err := e.spotsAt(&p)
		if len(spots) > 0 || err == nil || !strings.Contains(err.Error(), "first instruction") {
			t.Errorf("%s: %d places, %v", p.Program, len(spots), err)
		}
	}
}
