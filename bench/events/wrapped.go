package main

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/probe"
)

// sleeping is an engine whose probes stay disabled: a hit does nothing but happen.
type sleeping struct{ probe.Engine }

func (sleeping) Enable() {}

// atEntry is an engine whose probes sit on the first instruction of their functions, where other tools put theirs. A hit costs
// some twenty times as much there, and a call whose stack grows is seen twice.
type atEntry struct{ probe.Engine }

func (e atEntry) Attach(plan *probe.Plan) ([]event.Warning, error) {
	for i := range plan.Probes {
		p := &plan.Probes[i]
		if p.Place != probe.AtEntry {
			continue
		}
		for j, site := range p.Sites {
			entry, _, err := plan.Code(site)
			if err != nil {
				return nil, err
			}
			site.Offset -= site.Addr - entry
			site.Addr = entry
			site.At = insn.Site{PC: entry, Kind: insn.SiteEntry, GReg: site.At.GReg}
			p.Sites[j] = site
			plan.Sets[p.Set].Sites[p.ID] = site.Settings()
		}
	}
	return e.Engine.Attach(plan)
}
