package goproc

import (
	"errors"
	"fmt"

	"github.com/loupe-go/loupe/internal/gobin"
)

// ErrProfileOff reports that the program does not record a profile. The text of an error that wraps it has the reason.
var ErrProfileOff = errors.New("the program does not record this profile")

// profileLayout holds the addresses and offsets of the profiles that the runtime of a process keeps (runtime/mprof.go).
type profileLayout struct {
	gobin.ProfileGlobals // addresses in the process; 0 where unknown

	bucketSize, allnext, typ, size, nstk int // of runtime.bucket

	memSize, future                      int // of runtime.memRecord, which starts with the published counts
	countsSize                           int // of runtime.memRecordCycle
	allocs, frees, allocBytes, freeBytes int // in runtime.memRecordCycle; the last two are none from Go 1.25 on

	blockSize, count, cycles int // of runtime.blockRecord

	cycle      int  // offset of the word with the number of the cycle
	cycleShift uint // of the number in this word
	key        int  // of runtime.mutex
	ticks      int  // offset of the rate in runtime.ticksType

	rules profileRules
}

// profileRules are what differs between releases and is not in their layouts.
type profileRules struct {
	since int // the first release, 1.x

	floatCount    bool // runtime.blockRecord.count is a float64
	scaledMutex   bool // runtime.blockRecord has estimates for the mutex profile; before, runtime/pprof made them
	hideInternal  bool // runtime/pprof hides functions of internal/runtime at the leaf of a heap profile
	expandedFinal bool // runtime/pprof completes the calls inlined at the last address of a stack
}

var profileRulesTable = []profileRules{
	{since: 12},
	{since: 14, expandedFinal: true},
	{since: 17, expandedFinal: true, floatCount: true},
	{since: 20, expandedFinal: true, floatCount: true, scaledMutex: true},
	{since: 24, expandedFinal: true, floatCount: true, scaledMutex: true, hideInternal: true},
}

func profileRulesOf(minor int) profileRules {
	rules := profileRulesTable[0]
	for _, next := range profileRulesTable {
		if next.since <= minor {
			rules = next
		}
	}
	return rules
}

// profileLayout returns the layout of the profiles of the process.
func (p *Process) profileLayout() (*profileLayout, error) {
	bin := p.main.bin
	l := &profileLayout{ProfileGlobals: bin.Globals().Profiles, rules: profileRulesOf(bin.Version().Minor)}
	for _, addr := range []*uint64{&l.MemBuckets, &l.BlockBuckets, &l.MutexBuckets, &l.MemCycle, &l.MemLock, &l.BlockLock,
		&l.MemRate, &l.MemDisabled, &l.BlockRate, &l.MutexFraction, &l.Ticks} {
		if *addr != 0 {
			*addr += p.main.bias
		}
	}
	r := fieldReader{layout: p.layout}
	l.bucketSize, l.allnext, l.typ = r.size("runtime.bucket"), r.need("runtime.bucket.allnext"), r.need("runtime.bucket.typ")
	l.size, l.nstk = r.need("runtime.bucket.size"), r.need("runtime.bucket.nstk")
	l.memSize, l.future, l.countsSize = r.size("runtime.memRecord"), r.need("runtime.memRecord.future"), r.size("runtime.memRecordCycle")
	l.allocs, l.frees = r.need("runtime.memRecordCycle.allocs"), r.need("runtime.memRecordCycle.frees")
	l.allocBytes, l.freeBytes = r.first("runtime.memRecordCycle.alloc_bytes"), r.first("runtime.memRecordCycle.free_bytes")
	l.blockSize, l.count, l.cycles = r.size("runtime.blockRecord"), r.need("runtime.blockRecord.count"), r.need("runtime.blockRecord.cycles")
	if l.cycle = r.first("runtime.mProfType.cycle"); l.cycle == none {
		l.cycle, l.cycleShift = r.need("runtime.mProfCycleHolder.value"), 1 // bit 0 is a flag
	}
	l.key = r.need("runtime.mutex.key")
	l.ticks = r.need("runtime.ticksType.val")
	if r.err != nil {
		return nil, p.profileErrorf("%w", r.err)
	}
	const word = 8
	if err := errors.Join(checkWithin(l.bucketSize-word+1, l.allnext, l.typ, l.size, l.nstk),
		checkWithin(l.countsSize-word+1, l.allocs, l.frees, l.allocBytes, l.freeBytes),
		checkWithin(l.memSize-futures*l.countsSize+1, l.future), checkWithin(l.blockSize-word+1, l.count, l.cycles)); err != nil {
		return nil, p.profileErrorf("%w", err)
	}
	return l, nil
}

// profileErrorf returns an error about profile data that is not as expected. It wraps ErrLayout.
func (p *Process) profileErrorf(format string, args ...any) error {
	return fmt.Errorf("process %d: %w: profiles of the runtime: %w", p.pid, ErrLayout, fmt.Errorf(format, args...))
}

// known returns an error if the address of a variable is unknown.
func (p *Process) known(name string, addr uint64) error {
	if addr == 0 {
		return p.profileErrorf("the address of runtime.%s could not be found in %s", name, p.main.bin.Path())
	}
	return nil
}

// futures is the number of cycles for which a memRecord has counts that are not published.
const futures = 3
