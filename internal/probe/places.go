package probe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// addCalls places a probe at the calls of another function.
func (pl *planner) addCalls(probe *Probe, d *Declaration, f gobin.Func) error {
	sites, err := pl.calls(d, f)
	if err != nil {
		return err
	}
	if len(sites) > 1 && slices.Contains(d.Last, f.Name) {
		sites = sites[len(sites)-1:]
	}
	for _, site := range sites {
		if err := pl.addSite(probe, d, f, site); err != nil {
			return err
		}
	}
	return nil
}

// addAfter places a probe after the calls of another function.
func (pl *planner) addAfter(probe *Probe, d *Declaration, f gobin.Func) error {
	calls, err := pl.calls(d, f)
	if err != nil {
		return err
	}
	for _, call := range calls {
		if err := pl.addAfterOne(probe, d, f, call.PC, func(*insn.Site) {}); err != nil {
			return err
		}
	}
	return nil
}

// addAfterOne places a probe after the call at pc. complete completes the settings of a place.
func (pl *planner) addAfterOne(probe *Probe, d *Declaration, f gobin.Func, pc uint64, complete func(*insn.Site)) error {
	places, err := pl.bin.AfterCall(f, pc, d.Results)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		return fmt.Errorf("%s has no place for a probe after its call at %#x", f.Name, pc)
	}
	roomy, cheap := places[0], places[1]
	complete(&roomy)
	complete(&cheap)
	probe.addInstead(0, f, roomy)
	return pl.addSite(probe, d, f, cheap)
}

// localCalls returns a function that places a probe after the calls of a function that Declaration.Local selects.
func (pl *planner) localCalls(selected *Local) func(*Probe, *Declaration, gobin.Func) error {
	var offsets []int // in the order in which they were found
	return func(probe *Probe, d *Declaration, f gobin.Func) error {
		calls, err := pl.calls(d, f)
		if err != nil {
			return err
		}
		for _, call := range calls {
			offset, ok, err := pl.bin.LocalArg(f, call.PC, selected.Word)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			nth := slices.Index(offsets, offset)
			if nth < 0 {
				nth = len(offsets)
				offsets = append(offsets, offset)
			}
			switch {
			case nth > selected.Nth && selected.Last:
				pl.warn("%s: %s is one function too many with another frame", d.Without, f.Name)
				continue
			case nth != selected.Nth:
				continue
			}
			if err := pl.addLocal(probe, d, f, call.PC, offset); err != nil { // the other functions of the program can have a place
				pl.warn("%s: %v", d.Without, err)
			}
		}
		return nil
	}
}

// addLocal places a probe after a call. If no result is in a register, the probe has a list of alternatives ahead: instructions that a jump can
// replace, and calls of functions that are not the runtime's.
func (pl *planner) addLocal(probe *Probe, d *Declaration, f gobin.Func, pc uint64, offset int) error {
	place := func(s *insn.Site) {
		for i := range d.Results {
			s.Results[i] = csrc.NoSlot
		}
		s.Results[d.Results], s.Words = offset, d.Results+1
	}
	if err := pl.addAfterOne(probe, d, f, pc, place); err != nil || d.Results > 0 {
		return err
	}
	ahead, err := pl.bin.Ahead(f, pc, offset, func(p insn.Place) bool {
		callee, ok := pl.bin.FuncForPC(p.Target)
		return p.Roomy || p.Call && ok && !strings.HasPrefix(callee.Name, "runtime.")
	})
	for _, s := range ahead {
		place(&s)
		probe.addInstead(1, f, s)
	}
	return err
}

// calls returns the calls of a function at which, or after which, a probe is.
func (pl *planner) calls(d *Declaration, f gobin.Func) ([]insn.Site, error) {
	var all []insn.Site
	for _, name := range append([]string{d.Callee}, d.Callees...) {
		callee, ok := pl.bin.LookupFunc(name)
		if !ok {
			continue
		}
		sites, err := callsOf(pl.bin, f, callee)
		if err != nil {
			return nil, err
		}
		all = append(all, sites...)
	}
	return all, nil
}

// callsOf returns the calls of one function in another.
func callsOf(bin *gobin.Binary, f, callee gobin.Func) ([]insn.Site, error) {
	calls, err := bin.CallSites(f)
	if err != nil {
		return nil, err
	}
	var sites []insn.Site
	for _, c := range calls {
		if c.Target != callee.Entry || c.Tail {
			continue
		}
		sites = append(sites, callSite(bin, c.PC))
	}
	return sites, nil
}

// callSite returns the place of a call, as the callee sees it.
func callSite(bin *gobin.Binary, pc uint64) insn.Site {
	site := insn.Site{PC: pc, Kind: insn.SiteCall, Emulated: true, GReg: insn.GReg(bin.Arch(), bin.Version().Minor)}
	if bin.Arch() == insn.AMD64 {
		site.SPMoved = -8 // the callee's return address is not pushed yet
	}
	return site
}
