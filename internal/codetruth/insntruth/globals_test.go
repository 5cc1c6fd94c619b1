package insntruth

import (
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// inferredVariable says what symbol a field of Globals is the address of.
type inferredVariable struct {
	symbol   string
	global   func(insn.Globals) insn.Global
	since    int // first Go 1 minor that has the symbol
	to       int // last one, 0: still there
	evidence int // deductions expected at least
}

var inferredVariables = []inferredVariable{
	{"runtime.allgs", func(g insn.Globals) insn.Global { return g.Allgs }, 12, 15, 2},
	{"runtime.allgs", func(g insn.Globals) insn.Global { return g.Allgs }, 16, 16, 1},
	{"runtime.allgs", func(g insn.Globals) insn.Global { return g.Allgs }, 17, 0, 2},
	{"runtime.allglen", func(g insn.Globals) insn.Global { return g.Allglen }, 12, 16, 1},
	{"runtime.allglen", func(g insn.Globals) insn.Global { return g.Allglen }, 17, 0, 2},
	{"runtime.allgptr", func(g insn.Globals) insn.Global { return g.Allgptr }, 16, 16, 1},
	{"runtime.allgptr", func(g insn.Globals) insn.Global { return g.Allgptr }, 17, 0, 2},
	{"runtime.allm", func(g insn.Globals) insn.Global { return g.Allm }, 12, 0, 2},
	{"runtime.allp", func(g insn.Globals) insn.Global { return g.Allp }, 12, 0, 2},
	{"runtime.sched", func(g insn.Globals) insn.Global { return g.Sched }, 12, 0, 2},
	{"runtime.gomaxprocs", func(g insn.Globals) insn.Global { return g.Gomaxprocs }, 12, 0, 2},
	{"runtime.ncpu", func(g insn.Globals) insn.Global { return g.Ncpu }, 12, 24, 1},
	{"runtime.numCPUStartup", func(g insn.Globals) insn.Global { return g.Ncpu }, 25, 0, 1},
	{"runtime.buildVersion", func(g insn.Globals) insn.Global { return g.BuildVersion }, 12, 0, 1},
	{"runtime.firstmoduledata", func(g insn.Globals) insn.Global { return g.FirstModuleData }, 12, 0, 1},
	{"runtime.gcController", func(g insn.Globals) insn.Global { return g.GCController }, 12, 0, 2},
	{"runtime.gcpercent", func(g insn.Globals) insn.Global { return g.Gcpercent }, 12, 16, 1},
	{"runtime.mheap_", func(g insn.Globals) insn.Global { return g.Mheap }, 12, 0, 1},
	{"runtime.work", func(g insn.Globals) insn.Global { return g.Work }, 12, 0, 1},
	{"runtime.debug", func(g insn.Globals) insn.Global { return g.Debug }, 12, 0, 1},
	{"runtime.runtimeInitTime", func(g insn.Globals) insn.Global { return g.RuntimeInitTime }, 12, 0, 1},
	{"runtime.waitReasonStrings", func(g insn.Globals) insn.Global { return g.WaitReasons }, 12, 0, 2},

	{"runtime.mbuckets", func(g insn.Globals) insn.Global { return g.MemBuckets }, 12, 18, 2},
	{"runtime.mbuckets", func(g insn.Globals) insn.Global { return g.MemBuckets }, 19, 0, 1},
	{"runtime.bbuckets", func(g insn.Globals) insn.Global { return g.BlockBuckets }, 12, 0, 1},
	{"runtime.xbuckets", func(g insn.Globals) insn.Global { return g.MutexBuckets }, 12, 0, 1},
	{"runtime.mProf", func(g insn.Globals) insn.Global { return g.MemProfCycle }, 12, 18, 2},
	{"runtime.mProfCycle", func(g insn.Globals) insn.Global { return g.MemProfCycle }, 19, 0, 1},
	{"runtime.proflock", func(g insn.Globals) insn.Global { return g.MemProfLock }, 12, 18, 2},
	{"runtime.profMemActiveLock", func(g insn.Globals) insn.Global { return g.MemProfLock }, 19, 0, 2},
	{"runtime.proflock", func(g insn.Globals) insn.Global { return g.BlockProfLock }, 12, 18, 1},
	{"runtime.profBlockLock", func(g insn.Globals) insn.Global { return g.BlockProfLock }, 19, 0, 1},
	{"runtime.MemProfileRate", func(g insn.Globals) insn.Global { return g.MemProfileRate }, 12, 0, 1},
	{"runtime.disableMemoryProfiling", func(g insn.Globals) insn.Global { return g.DisableMemoryProfiling }, 17, 0, 1},
	{"runtime.blockprofilerate", func(g insn.Globals) insn.Global { return g.BlockProfileRate }, 12, 0, 1},
	{"runtime.mutexprofilerate", func(g insn.Globals) insn.Global { return g.MutexProfileRate }, 12, 0, 1},
	{"runtime.ticks", func(g insn.Globals) insn.Global { return g.Ticks }, 22, 0, 1},
}

func TestGlobalsEqualSymbols(t *testing.T) {
	specs := append(targets(t), // and with the instructions that GOAMD64=v3 permits
		testtarget.Rare(t, testtarget.Spec{Program: "zoo", Go: testtarget.Latest(), Arch: insn.AMD64, AMD64Level: "v3"})...)
	eachOf(t, specs, func(t *testing.T, p *program) {
		g := insn.InferGlobals(p.lookup, p.isData)
		for _, v := range inferredVariables {
			if p.minor < v.since || v.to != 0 && p.minor > v.to {
				continue
			}
			want, ok := p.syms[v.symbol]
			if !ok {
				t.Errorf("%s: the program has no such symbol", v.symbol)
				continue
			}
			got := v.global(g)
			if got.Addr != want.Value || len(got.Evidence) < v.evidence {
				t.Errorf("%s: inferred %#x, is at %#x; evidence %+v", v.symbol, got.Addr, want.Value, got.Evidence)
			}
		}
		if size := p.syms["runtime.waitReasonStrings"].Size; uint64(g.WaitReasonCount)*16 != size {
			t.Errorf("%d wait reasons inferred, the array has %d bytes", g.WaitReasonCount, size)
		}
		if p.minor < 16 && g.Allgptr.Addr != 0 {
			t.Errorf("allgptr inferred at %#x: Go 1.%d has none", g.Allgptr.Addr, p.minor)
		}
	})
}

// Evidence names an instruction of the function it names.
func TestGlobalsEvidence(t *testing.T) {
	p := newest(t)
	g := insn.InferGlobals(p.lookup, p.isData)
	if len(g.Allgs.Evidence) == 0 {
		t.Fatal("no evidence for allgs")
	}
	for _, v := range inferredVariables {
		for _, e := range v.global(g).Evidence {
			c, ok := p.lookup(e.Func)
			if !ok || !within(c, e.PC) {
				t.Errorf("%s: evidence at %#x is not in %s", v.symbol, e.PC, e.Func)
			}
		}
	}
}

// Without functions, or without data, nothing is found and nothing breaks.
func TestGlobalsOfNothing(t *testing.T) {
	p := newest(t)
	none := func(string) (insn.Code, bool) { return insn.Code{}, false }
	if g := insn.InferGlobals(none, p.isData); g.Allgs.Addr != 0 || g.WaitReasonCount != 0 {
		t.Errorf("inferred from no functions: %+v", g)
	}
	noData := func(uint64, int) bool { return false }
	g := insn.InferGlobals(p.lookup, noData)
	for _, v := range inferredVariables {
		if got := v.global(g); got.Addr != 0 || len(got.Evidence) != 0 {
			t.Errorf("%s: inferred %+v although no address is data", v.symbol, got)
		}
	}
}

// Sources that disagree leave a variable unfound, with both claims on record.
func TestGlobalsDisagreement(t *testing.T) {
	p := newest(t)
	const swapped = "runtime.retake"
	lookup := func(name string) (insn.Code, bool) {
		if name == swapped { // reads another slice than allp first
			return p.lookup("runtime.forEachG")
		}
		return p.lookup(name)
	}
	g := insn.InferGlobals(lookup, p.isData)
	if g.Allp.Addr != 0 || len(g.Allp.Evidence) != 2 || g.Allp.Evidence[0].Addr == g.Allp.Evidence[1].Addr {
		t.Errorf("allp from two sources that disagree: %+v", g.Allp)
	}
	if g.Allgs.Addr != p.syms["runtime.allgs"].Value {
		t.Errorf("allgs is at %#x after a disagreement about allp", g.Allgs.Addr)
	}
}

// A function cut short at any place gives less evidence, never another address.
func TestGlobalsFromCutFunctions(t *testing.T) {
	p := newest(t)
	whole := insn.InferGlobals(p.lookup, p.isData)
	for _, keep := range []int{0, 1, 7, 30, 60, 90} { // per cent
		lookup := func(name string) (insn.Code, bool) {
			c, ok := p.lookup(name)
			if strings.HasPrefix(name, "runtime.waitReason") {
				return c, ok
			}
			c.Bytes = c.Bytes[:len(c.Bytes)*keep/100]
			return c, ok
		}
		g := insn.InferGlobals(lookup, p.isData)
		for _, symbol := range []string{"runtime.allgs", "runtime.allm", "runtime.sched", "runtime.buildVersion"} {
			for _, v := range inferredVariables {
				if v.symbol != symbol {
					continue
				}
				if got, want := v.global(g).Addr, v.global(whole).Addr; got != 0 && got != want {
					t.Errorf("%d %% of each function: %s inferred at %#x, is at %#x", keep, symbol, got, want)
				}
			}
		}
	}
}
