//go:build loupe_glti

package glti

import "runtime"

// rtThread is runtime.gltiThread.
type rtThread struct {
	number int64
	g      uintptr
	goid   uint64
	stack  [32]uintptr
}

// createdThreads is an open profile of thread creation.
type createdThreads struct {
	rate   int
	newest int64 // the number of the newest thread that was read; -1 before
	skip   int   // threads to be skipped before the next record
}

func (p *createdThreads) snapshot() (snapshot, error) {
	var s snapshot
	list := make([]rtThread, 64)
	for {
		n, next := rt_threads(p.newest, list)
		if p.newest >= 0 && next > p.newest+1 {
			lost(uint64(next - p.newest - 1))
		}
		if n == 0 {
			return s, nil
		}
		p.newest = list[n-1].number
		for _, t := range list[:n] {
			if p.skip > 0 {
				p.skip--
				continue
			}
			p.skip = p.rate - 1
			record := StackRecord{StackRecord: runtime.StackRecord{Stack0: t.stack}}
			if t.goid != 0 {
				record.GP = G{t.g, t.goid}
			}
			s.stacks = append(s.stacks, record)
		}
	}
}

func (*createdThreads) close() {}
