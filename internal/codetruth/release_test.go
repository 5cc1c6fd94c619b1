package codetruth

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/codepatchtest"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func function(t *testing.T, bin *gobin.Binary, f gobin.Func) codepatch.Function {
	t.Helper()
	code, err := bin.Code(f)
	if err != nil {
		t.Fatal(err)
	}
	return codepatch.Function{Arch: bin.Arch(), Entry: f.Entry, Code: code}
}

// siteAt finds out what kind of site an address was chosen as.
func siteAt(t *testing.T, bin *gobin.Binary, f gobin.Func, pc uint64) insn.Site {
	t.Helper()
	for words := range 9 {
		if site, err := bin.PrologueSite(f, words); err == nil && site.PC == pc {
			return site
		}
	}
	calls, err := bin.CallSites(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if c.PC == pc {
			return insn.Site{PC: pc, Kind: insn.SiteCall, SPMoved: -8}
		}
	}
	returns, err := bin.ReturnSites(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range returns {
		if r.PC == pc {
			return r.Site
		}
		if r.Early != nil && r.Early.PC == pc {
			return *r.Early
		}
	}
	t.Fatalf("%s at %#x is no kind of site", f.Name, pc)
	return insn.Site{}
}

// TestEveryProbe plans all sites of all probes in executables of every release, and checks that the patched code does the
// same as the original. None is refused.
func TestEveryProbe(t *testing.T) {
	for _, spec := range testtarget.Builds(t, "tiny") {
		t.Run(spec.String(), func(t *testing.T) {
			t.Parallel()
			exe := probetest.Open(t, spec)
			bin := exe.Binary()
			plan, _, err := probe.NewPlan(exe, probe.Want{Kinds: event.KindsAll, StackDepth: 32})
			if err != nil {
				t.Fatal(err)
			}
			var all []*codepatch.Displacement
			for _, p := range plan.Probes {
				for _, s := range p.Sites {
					f, ok := bin.FuncForPC(s.Addr)
					if !ok {
						t.Fatalf("no function at %#x", s.Addr)
					}
					fn, site := function(t, bin, f), siteAt(t, bin, f, s.Addr)
					d, err := codepatch.Plan(fn, site)
					if err != nil {
						t.Errorf("%s in %s: %v", p.Program, s.Func, err)
						continue
					}
					all = append(all, d)
					checkPlace(t, fn, site, d)
				}
				checkStores(t, bin, plan, &p)
			}
			checkReach(t, all)
		})
	}
}

// checkStores checks the displacement of the stores that can serve instead of a probe's places.
func checkStores(t *testing.T, bin *gobin.Binary, plan *probe.Plan, p *probe.Probe) {
	t.Helper()
	instead, err := plan.Instead(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Concat(instead...) {
		f, ok := bin.FuncForPC(s.Addr)
		if !ok {
			t.Fatalf("no function at %#x", s.Addr)
		}
		if s.At.Kind != insn.SiteStore {
			continue
		}
		fn := function(t, bin, f)
		d, err := codepatch.Plan(fn, s.At)
		switch {
		case err != nil || !d.Durable || d.MayFault || d.FlagsLive:
			t.Errorf("store in %s: %+v, %v", s.Func, d, err)
		case d.Fixed != 0:
			codepatchtest.CheckSame(t, fn, s.At, d, d.Fixed)
			if _, err := d.Jump(d.Fixed + 1); err == nil {
				t.Errorf("%s: a jump to a stub elsewhere than at %#x", s.Func, d.Fixed)
			}
		default:
			checkPlace(t, fn, s.At, d)
		}
	}
}

// checkPlace checks what is not seen in the code itself.
func checkPlace(t *testing.T, f codepatch.Function, site insn.Site, d *codepatch.Displacement) {
	t.Helper()
	lo, hi, err := codepatch.Reach(d)
	if err != nil {
		t.Fatal(err)
	}
	codepatchtest.CheckSame(t, f, site, d, lo&^3+4)
	codepatchtest.CheckSame(t, f, site, d, (hi-256)&^3)
	codepatchtest.CheckSame(t, f, site, d, (f.Entry+1<<20)&^3)
	if d.MayFault {
		t.Errorf("%s at %#x: a displaced instruction may fault", site.Kind, site.PC)
	}
	want := site.SPMoved
	if site.Kind == insn.SiteCall && f.Arch == insn.AMD64 {
		want += 8
	}
	if d.SPMoved != want {
		t.Errorf("%s at %#x: the stack pointer has moved by %d, want %d", site.Kind, site.PC, d.SPMoved, want)
	}
	live := site.Kind == insn.SiteBranch && f.Code[site.PC-f.Entry] == 0x0F || // JB
		site.Kind == insn.SiteBranch && f.Arch == insn.ARM64 && f.Code[site.PC-f.Entry+3] == 0x54 // B.HI
	if d.FlagsLive != live {
		t.Errorf("%s at %#x: flags live: %v, want %v", site.Kind, site.PC, d.FlagsLive, live)
	}
}

// checkReach checks that the stubs of one program fit in one place, and that the displacements do not overlap.
func checkReach(t *testing.T, all []*codepatch.Displacement) {
	t.Helper()
	lo, hi, err := codepatch.Reach(all...)
	if err != nil || hi-lo < 1<<26 {
		t.Errorf("stubs can stand from %#x to %#x, %v", lo, hi, err)
	}
	for i, d := range all {
		for _, other := range all[:i] {
			if d.Overlaps(other) && d.Start != other.Start {
				t.Errorf("%#x-%#x and %#x-%#x overlap", d.Start, d.End, other.Start, other.End)
			}
		}
	}
}

// sweepVersions are releases before and after arguments came in registers, and before and after frames began with a push.
var sweepVersions = []string{"1.12.17", "1.16.15", "1.18.10", "1.20.14", testtarget.Latest()}

// TestEveryFunction plans the prologue, the calls and the returns of all functions of executables: those that no probe
// sits in yet are code as good as any to be wrong about.
func TestEveryFunction(t *testing.T) {
	for _, version := range testtarget.Among(t, sweepVersions...) {
		for _, arch := range []string{testtarget.AMD64, testtarget.ARM64} {
			spec := testtarget.Spec{Program: "tiny", Go: version, Arch: arch}
			t.Run(spec.String(), func(t *testing.T) {
				if arch == testtarget.ARM64 && version != testtarget.Latest() {
					testtarget.Whole(t, "for which the standard library is compiled once more")
				}
				t.Parallel()
				s := sweep{bin: probetest.Open(t, spec).Binary(), planned: map[insn.SiteKind]int{}, refused: map[insn.SiteKind]int{}, reasons: map[string]int{}}
				for f := range s.bin.Functions() {
					s.function(t, f)
				}
				s.report(t)
			})
		}
	}
}

type sweep struct {
	bin              *gobin.Binary
	planned, refused map[insn.SiteKind]int
	reasons          map[string]int
}

func (s *sweep) function(t *testing.T, f gobin.Func) {
	t.Helper()
	fn := function(t, s.bin, f)
	var sites []insn.Site
	if site, err := s.bin.PrologueSite(f, 9); err == nil {
		sites = append(sites, site)
	}
	if returns, err := s.bin.ReturnSites(f); err == nil {
		for _, r := range returns[:min(len(returns), 2)] {
			sites = append(sites, r.Site)
		}
	}
	if calls, err := s.bin.CallSites(f); err == nil {
		for _, c := range calls[:min(len(calls), 2)] {
			site := insn.Site{PC: c.PC, Kind: insn.SiteCall}
			if c.Tail {
				site.Kind = insn.SiteBranch
			}
			sites = append(sites, site)
		}
	}
	for _, site := range sites {
		d, err := codepatch.Plan(fn, site)
		if err != nil {
			s.refused[site.Kind]++
			s.reasons[reason(err)]++
			continue
		}
		s.planned[site.Kind]++
		codepatchtest.CheckSame(t, fn, site, d, (f.Entry+1<<24)&^3)
		if t.Failed() {
			t.Fatalf("in %s", f.Name)
		}
	}
}

// report checks that what is refused is little, and refused for one of the reasons that real code has.
func (s *sweep) report(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(s.planned)) {
		planned, refused := s.planned[kind], s.refused[kind]
		t.Logf("%-12s %5d planned, %4d refused", kind, planned, refused)
		if never := kind == insn.SiteStackCheck || s.bin.Arch() == insn.ARM64 && kind == insn.SiteReturn; never && refused > 0 ||
			refused*20 > planned && refused > 40 && kind != insn.SiteReturn || refused*8 > planned && refused > 40 { // returns of small functions
			t.Errorf("%s: %d sites are refused", kind, refused)
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(s.reasons), func(a, b string) int { return s.reasons[b] - s.reasons[a] }) {
		t.Logf("%5d %s", s.reasons[r], r)
		if !slices.ContainsFunc(expectedReasons, func(part string) bool { return strings.Contains(r, part) }) {
			t.Errorf("an unexpected reason: %s", r)
		}
	}
}

// expectedReasons are why sites of real functions are refused.
var expectedReasons = []string{
	"too few for a jump",                         // a return or a short branch that others join just before
	"a branch leads to",                          // a loop begins right behind
	"jump to a computed address",                 // a tail call, or a switch
	"nothing precedes the return",                // the function returns at once
	"the code before the site does not continue", // or little
	"a branch leads to the return",
	"return address in the stub",                // a function that calls at once
	"is not an instruction that can be moved",   // vector instructions, PUSHFQ, INT3
	"unknown instruction",                       // of arm64, newer than the decoder
	"not the start of an instruction",           // data in place of a function
	"a call that cannot be converted to a jump", // BLR with pointer authentication, or of the link register
}

var hexNumber = regexp.MustCompile(`0x[0-9a-f]+`)

// reason is an error without what differs from site to site.
func reason(err error) string {
	return hexNumber.ReplaceAllString(err.Error(), "…")
}
