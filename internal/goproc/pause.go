package goproc

import "github.com/loupe-go/loupe/internal/ptrace"

// pausedAt returns the registers of each thread of a stopped process.
func pausedAt(s *ptrace.Stopped) map[int]registers {
	threads := s.Threads()
	regs := make(map[int]registers, len(threads))
	for _, t := range threads {
		regs[t.TID] = threadRegs(t.Regs)
	}
	return regs
}
