package glti

import (
	"runtime"
	"sync"
)

// stockProfiles opens the profiles of a stock program.
var stockProfiles = [endProfile]struct {
	open   func(s *stock, rate int) (openProfile, error)
	limits string
}{
	BlockProfile: {(*stock).openBlock, "the rate applies only while the application's own is 0 (runtime.SetBlockProfileRate); the goroutine is not known. In a program " +
		"without a symbol table, the rate stays after the handler is removed"},
	CPUProfile: {(*stock).openCPU, "at most 100 samples a second; while a handler is registered, pprof.StartCPUProfile of the application returns an error, unless the " +
		"application's profile started first: then the handler gets no samples until it stops; the goroutine is not known"},
	GoroutineProfile: {(*stock).openGoroutines, "the goroutine is not known"},
	HeapProfile: {(*stock).openHeap, "the rate applies only if the application has set runtime.MemProfileRate to 0 before; the goroutine " +
		"is not known"},
	MutexProfile: {(*stock).openMutex, "the fraction applies only while the application's own is 0 (runtime.SetMutexProfileFraction); the goroutine is not known"},
	ThreadCreationProfile: {(*stock).openThreads, "the handler is called for the next snapshot, not at the creation; threads that ended before it are not " +
		"counted; the goroutine is not known"},
}

func (s *stock) openProfile(kind Profile, rate int) (openProfile, error) {
	return stockProfiles[kind].open(s, rate)
}

// plainProfile is a profile that the runtime collects by itself, or at a rate.
type plainProfile struct {
	take func() snapshot
	rate *rateControl // nil if the profile has no rate
	want int          // the agent's rate
}

func (p *plainProfile) snapshot() (snapshot, error) {
	if p.rate != nil {
		p.rate.apply()
	}
	return p.take(), nil
}

func (p *plainProfile) close() {
	if p.rate != nil {
		p.rate.remove(p.want)
	}
}

// openRated opens a profile that the runtime collects at a rate.
func openRated(rate *rateControl, want int, take func() snapshot) (openProfile, error) {
	rate.add(want)
	return &plainProfile{take: take, rate: rate, want: want}, nil
}

func (s *stock) openBlock(rate int) (openProfile, error) {
	return openRated(s.blockRate, rate, func() snapshot { return snapshot{blocks: blockRecords(runtime.BlockProfile)} })
}

func (s *stock) openMutex(rate int) (openProfile, error) {
	return openRated(s.mutexRate, rate, func() snapshot { return snapshot{blocks: blockRecords(runtime.MutexProfile)} })
}

func (s *stock) openHeap(rate int) (openProfile, error) {
	return openRated(s.heapRate, rate, func() snapshot {
		records := grown(func(p []runtime.MemProfileRecord) (int, bool) { return runtime.MemProfile(p, true) })
		memory := make([]MemProfileRecord, len(records))
		for i, r := range records {
			memory[i].MemProfileRecord = r
		}
		return snapshot{memory: memory}
	})
}

func (s *stock) openGoroutines(rate int) (openProfile, error) {
	return &plainProfile{take: func() snapshot {
		return snapshot{stacks: stackRecords(grown(runtime.GoroutineProfile), rate, 0)}
	}}, nil
}

// threadProfile returns the threads that were created since the last snapshot.
type threadProfile struct {
	rate int
	seen int // threads at the last snapshot
	skip int // threads to be skipped before the next record
}

func (s *stock) openThreads(rate int) (openProfile, error) { return &threadProfile{rate: rate}, nil }

func (p *threadProfile) snapshot() (snapshot, error) {
	threads := grown(runtime.ThreadCreateProfile) // the newest first
	created := max(len(threads)-p.seen, 0)
	p.seen = len(threads)
	stacks := stackRecords(threads[:created], p.rate, p.skip)
	p.skip = ((p.skip-created)%p.rate + p.rate) % p.rate
	return snapshot{stacks: stacks}, nil
}

func (*threadProfile) close() {}

// grown calls a function of the runtime that copies records, with a slice that is large enough.
func grown[T any](copyTo func([]T) (n int, ok bool)) []T {
	n, _ := copyTo(nil)
	for {
		p := make([]T, n+n/8+16) // more may come meanwhile
		var ok bool
		if n, ok = copyTo(p); ok {
			return p[:n]
		}
	}
}

func blockRecords(copyTo func([]runtime.BlockProfileRecord) (int, bool)) []BlockProfileRecord {
	records := grown(copyTo)
	blocks := make([]BlockProfileRecord, len(records))
	for i, r := range records {
		blocks[i].BlockProfileRecord = r
	}
	return blocks
}

// stackRecords returns one in rate records, after the first skip.
func stackRecords(records []runtime.StackRecord, rate, skip int) []StackRecord {
	var stacks []StackRecord
	for i := skip; i < len(records); i += rate {
		stacks = append(stacks, StackRecord{StackRecord: records[i]})
	}
	return stacks
}

// rateControl sets the rate of a profile for agents, while the application does not use the profile. Two agents get the smaller
// rate, which samples more.
type rateControl struct {
	get     func() (value int, ok bool) // the value that is set, not necessarily in the unit of set; ok is false if that is not known
	set     func(rate int)
	unknown func() (used bool) // if get does not know: whether the application seems to use the profile

	mu      sync.Mutex
	wanted  []int
	applied bool // value is what set(rate) resulted in
	rate    int
	value   int
}

func (c *rateControl) add(rate int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = append(c.wanted, rate)
	c.update()
}

func (c *rateControl) remove(rate int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.wanted {
		if w == rate {
			c.wanted = append(c.wanted[:i:i], c.wanted[i+1:]...)
			break
		}
	}
	c.update()
}

// apply sets the rate again if the application has ended its own profile since.
func (c *rateControl) apply() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update()
}

// update sets the rate that the agents want, unless the application has set one.
func (c *rateControl) update() {
	value, known := c.get()
	switch {
	case known && c.applied && value != c.value, known && !c.applied && value != 0:
		c.applied = false
		if value != 0 {
			return // it is the application's
		}
	case !known && !c.applied && c.unknown():
		return
	}
	want := 0
	for _, w := range c.wanted {
		if want == 0 || w < want {
			want = w
		}
	}
	switch {
	case want == 0 && !c.applied, want == 0 && !known, c.applied && want == c.rate:
		return
	}
	c.set(want)
	c.applied, c.rate = want != 0, want
	c.value, _ = c.get()
}

// setRates makes the controls of the profiles that have a rate.
func (s *stock) setRates() {
	s.mutexRate = &rateControl{
		get: func() (int, bool) { return runtime.SetMutexProfileFraction(-1), true },
		set: func(rate int) { runtime.SetMutexProfileFraction(rate) },
	}
	s.heapRate = &rateControl{
		get: func() (int, bool) { return memProfileRate(), true },
		set: setMemProfileRate,
	}
	s.blockRate = &rateControl{
		get: s.blockProfileRate,
		set: runtime.SetBlockProfileRate,
		unknown: func() bool {
			n, _ := runtime.BlockProfile(nil)
			return n > 0
		},
	}
}

// memProfileRate reads a variable that the application may set at any time.
//
//go:norace
func memProfileRate() int { return runtime.MemProfileRate }

//go:norace
func setMemProfileRate(rate int) { runtime.MemProfileRate = rate }

// blockProfileRate reads the runtime's variable, which has the rate in ticks of the processor.
func (s *stock) blockProfileRate() (int, bool) {
	addr := s.symbol("runtime.blockprofilerate")
	if addr == 0 {
		return 0, false
	}
	return int(loadUint64(addr)), true
}
