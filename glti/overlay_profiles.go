//go:build loupe_glti

package glti

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// overlayProfiles are the profiles that the runtime has for agents, with their limits.
var overlayProfiles = map[Profile]string{
	CPUProfile:       "a rate above that of the kernel's clock (100 to 1000) has fewer samples",
	GoroutineProfile: "",
	HeapProfile: "the records are sums since the handler was registered; a rate above 117440512 is reduced to that; an object is counted as freed when " +
		"the garbage collector has freed it; objects in user arenas are not sampled",
	BlockProfile: "the records are sums since the handler was registered",
	ThreadCreationProfile: "of the threads since the last snapshot, the newest 256 have a record, and the others are counted as lost; the goroutine is unknown if none was " +
		"running",
	MutexProfile: "the records are sums since the handler was registered; locks of the runtime are not in them",
}

// profileEvery is the time between two looks at the buffers of the runtime.
const profileEvery = time.Second

func (o *overlay) openProfile(kind Profile, rate int) (openProfile, error) {
	switch kind {
	case CPUProfile:
		return o.cpu.open(rate)
	case GoroutineProfile:
		return &goroutineStacks{&o.goroutines, rate}, nil
	case HeapProfile:
		return o.heap.open(rate)
	case BlockProfile, MutexProfile:
		return o.contentions.open(kind, rate)
	case ThreadCreationProfile:
		return &createdThreads{rate: rate, newest: -1}, nil
	}
	return o.stock.openProfile(kind, rate)
}

// poller calls a function from time to time, while it runs.
type poller struct{ end chan struct{} }

func (p *poller) start(f func()) {
	p.end = make(chan struct{})
	go func(end chan struct{}) {
		rt_quiet()
		ticker := time.NewTicker(profileEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				f()
			case <-end:
				return
			}
		}
	}(p.end)
}

func (p *poller) stop() { close(p.end) }

// patchedCPU is the CPU profile of the runtime for agents. It runs at the highest rate of the open profiles.
type patchedCPU struct {
	mu     sync.Mutex
	all    []*cpuSamples
	hz     int
	poller poller
}

// cpuSamples is an open CPU profile.
type cpuSamples struct {
	of     *patchedCPU
	rate   int
	credit int // part of a sample that is left over, in hz-ths
	stacks []StackRecord
	lost   uint64
}

func (c *patchedCPU) open(rate int) (openProfile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &cpuSamples{of: c, rate: rate}
	c.all = append(c.all, s)
	if len(c.all) == 1 {
		c.poller.start(c.poll)
	}
	c.run()
	return s, nil
}

func (c *patchedCPU) poll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
}

// run runs the profile of the runtime at the highest rate.
func (c *patchedCPU) run() {
	hz := 0
	for _, s := range c.all {
		hz = max(hz, s.rate)
	}
	if hz == c.hz {
		return
	}
	if c.hz > 0 {
		rt_cpuStop()
		for !c.read() {
		}
	}
	c.hz = hz
	if hz > 0 {
		rt_cpuStart(int32(hz))
	}
}

// read gives the samples of the runtime to the open profiles, and reports whether there will be no more.
func (c *patchedCPU) read() (eof bool) {
	for {
		data, _, eof := rt_cpuRead()
		if len(data) == 0 {
			return eof
		}
		for len(data) > 0 {
			n, count, g, stack := data[0], data[2], G{uintptr(data[3]), data[4]}, data[5:data[0]]
			data = data[n:]
			switch {
			case len(stack) == 0: // the rate
			case count == 0:
				for _, s := range c.all {
					s.lost += stack[0]
				}
			default:
				record := StackRecord{StackRecord: stackRecord(stack)}
				if g.ID != 0 {
					record.GP = g
				}
				for _, s := range c.all {
					s.add(record, int(count), c.hz)
				}
			}
		}
	}
}

// add adds samples, thinned to the profile's rate.
func (s *cpuSamples) add(record StackRecord, count, hz int) {
	for ; count > 0; count-- {
		if s.credit += s.rate; s.credit >= hz {
			s.credit -= hz
			s.stacks = append(s.stacks, record)
		}
	}
}

func (s *cpuSamples) snapshot() (snapshot, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.read()
	result := snapshot{stacks: s.stacks}
	if s.lost > 0 {
		lost(s.lost)
	}
	s.stacks, s.lost = nil, 0
	return result, nil
}

func (s *cpuSamples) close() {
	c := s.of
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *cpuSamples) bool { return other == s })
	c.run()
	if len(c.all) == 0 {
		c.poller.stop()
	}
}

// stackRecord returns the innermost frames of a stack, as many as a record has.
func stackRecord(stack []uint64) (r runtime.StackRecord) {
	for i := 0; i < min(len(stack), len(r.Stack0)); i++ {
		r.Stack0[i] = uintptr(stack[i])
	}
	return r
}

// patchedContentions are the block and mutex profiles of the runtime for agents, each at the lowest rate of the open ones: it samples most.
type patchedContentions struct {
	mu     sync.Mutex
	all    []*contentions
	poller poller
}

// contentions is an open block or mutex profile.
type contentions struct {
	of    *patchedContentions
	kind  Profile
	rate  int
	sums  map[[32]uintptr]*contention
	order []*contention
	lost  uint64
}

// contention is the sum of the samples with the same stack.
type contention struct {
	stack         [32]uintptr
	count, cycles float64
	g             G
	several       bool // of goroutines
}

func (c *patchedContentions) open(kind Profile, rate int) (openProfile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read() // what was sampled until now is not for this one
	s := &contentions{of: c, kind: kind, rate: rate, sums: map[[32]uintptr]*contention{}}
	c.all = append(c.all, s)
	if len(c.all) == 1 {
		c.poller.start(c.poll)
	}
	c.setRate(kind)
	return s, nil
}

func (c *patchedContentions) poll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
}

// setRate sets the rate of the runtime.
func (c *patchedContentions) setRate(kind Profile) {
	rate := 0
	for _, s := range c.all {
		if s.kind == kind && (rate == 0 || s.rate < rate) {
			rate = s.rate
		}
	}
	if kind == BlockProfile {
		rt_blockRate(rate)
	} else {
		rt_mutexRate(rate)
	}
}

// Kinds of samples: see patches/contention.patch.
const (
	sampleLost      = 0
	sampleBlocked   = 1
	sampleContended = 2
)

// read gives the samples of the runtime to the open profiles.
func (c *patchedContentions) read() {
	for {
		data := rt_contentionRead()
		if len(data) == 0 {
			return
		}
		for len(data) > 0 {
			kind, cycles, rate, g, stack := data[2], float64(data[3]), float64(data[4]), G{uintptr(data[5]), data[6]}, data[7:data[0]]
			data = data[data[0]:]
			for _, s := range c.all {
				switch {
				case kind == sampleLost:
					s.lost += stack[0]
				case kind == sampleBlocked && s.kind == BlockProfile && cycles < rate: // it was sampled with the probability cycles/rate
					s.add(stack, rate/cycles, rate, g)
				case kind == sampleBlocked && s.kind == BlockProfile:
					s.add(stack, 1, cycles, g)
				case kind == sampleContended && s.kind == MutexProfile:
					s.add(stack, rate, rate*cycles, g)
				}
			}
		}
	}
}

func (s *contentions) add(stack []uint64, count, cycles float64, g G) {
	key := stackRecord(stack).Stack0
	sum := s.sums[key]
	if sum == nil {
		sum = &contention{stack: key, g: g}
		s.sums[key] = sum
		s.order = append(s.order, sum)
	}
	sum.count += count
	sum.cycles += cycles
	sum.several = sum.several || sum.g != g
}

func (s *contentions) snapshot() (snapshot, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.read()
	if s.lost > 0 {
		lost(s.lost)
		s.lost = 0
	}
	var list []BlockProfileRecord
	for _, sum := range s.order {
		r := BlockProfileRecord{BlockProfileRecord: runtime.BlockProfileRecord{Count: int64(sum.count), Cycles: int64(sum.cycles)}}
		r.Stack0 = sum.stack
		if !sum.several {
			r.GP = sum.g
		}
		list = append(list, r)
	}
	return snapshot{blocks: list}, nil
}

func (s *contentions) close() {
	c := s.of
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *contentions) bool { return other == s })
	c.setRate(s.kind)
	if len(c.all) == 0 {
		c.poller.stop()
	}
}
