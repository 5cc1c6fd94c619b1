package glti

import (
	"fmt"
	"sync"
	"time"
)

// ProfilerEnv registers handlers for profiles. [GLTIEnv] contains it.
//
// A handler is called with each snapshot of its profile, on a goroutine of this package (class C): every [DefaultInterval],
// or as [ProfilerEnv.SetInterval] says, and for [ProfilerEnv.Snapshot]. Calls of a handler do not overlap. A handler is disabled if
// it panics.
//
// The application has priority: its own profiling goes on as if there was no agent. [Capabilities] states the limits of that.
type ProfilerEnv struct{ agent *agent }

// Profile is a kind of profile.
type Profile uint8

// The profiles.
const (
	BlockProfile Profile = iota
	CPUProfile
	GoroutineProfile
	HeapProfile
	MutexProfile
	ThreadCreationProfile

	endProfile
)

var profileNames = [endProfile]string{
	BlockProfile:          "Block",
	CPUProfile:            "Cpu",
	GoroutineProfile:      "Goroutine",
	HeapProfile:           "Heap",
	MutexProfile:          "Mutex",
	ThreadCreationProfile: "ThreadCreation",
}

// Profiles returns all kinds of profiles.
func Profiles() []Profile {
	return []Profile{BlockProfile, CPUProfile, GoroutineProfile, HeapProfile, MutexProfile, ThreadCreationProfile}
}

// String returns the name of the profile as in RegisterPprof<name>ProfileHandler.
func (p Profile) String() string {
	if p >= endProfile {
		return fmt.Sprintf("Profile(%d)", uint8(p))
	}
	return profileNames[p]
}

func (p Profile) method() string { return "RegisterPprof" + p.String() + "ProfileHandler" }

// DefaultInterval is the time between two snapshots of a profile.
const DefaultInterval = 10 * time.Second

// RegisterPprofBlockProfileHandler registers a handler for the profile of blocking. profileRate is the number of nanoseconds of
// blocking in which one event is sampled on average, as in [runtime.SetBlockProfileRate]; it is at least 1. The records
// are sums since the program started.
func (env *ProfilerEnv) RegisterPprofBlockProfileHandler(profileRate int, cb func([]BlockProfileRecord)) error {
	return env.on(BlockProfile, profileRate, cb == nil, func(s snapshot) { cb(s.blocks) })
}

// RegisterPprofCpuProfileHandler registers a handler for the CPU profile. profileRate is the number of samples in a second of
// processor time; it is at least 1. Each record is one sample since the last snapshot.
func (env *ProfilerEnv) RegisterPprofCpuProfileHandler(profileRate int, cb func([]StackRecord)) error {
	return env.on(CPUProfile, profileRate, cb == nil, func(s snapshot) { cb(s.stacks) })
}

// RegisterPprofGoroutineProfileHandler registers a handler for the stacks of all goroutines. One in profileRate goroutines has a
// record; it is at least 1.
func (env *ProfilerEnv) RegisterPprofGoroutineProfileHandler(profileRate int, cb func([]StackRecord)) error {
	return env.on(GoroutineProfile, profileRate, cb == nil, func(s snapshot) { cb(s.stacks) })
}

// RegisterPprofHeapProfileHandler registers a handler for the profile of heap allocations. profileRate is the number of allocated
// bytes in which one allocation is sampled on average, as in [runtime.MemProfileRate]; it is at least 1. The records are sums
// of the samples since the program started, in a program with hooks since the handler was registered. An object of n bytes was sampled
// with the probability 1-exp(-n/profileRate).
func (env *ProfilerEnv) RegisterPprofHeapProfileHandler(profileRate int, cb func([]MemProfileRecord)) error {
	return env.on(HeapProfile, profileRate, cb == nil, func(s snapshot) { cb(s.memory) })
}

// RegisterPprofMutexProfileHandler registers a handler for the profile of lock contention. One in profileFraction events is
// sampled on average, as in [runtime.SetMutexProfileFraction]; it is at least 1. The records are sums since the program
// started.
func (env *ProfilerEnv) RegisterPprofMutexProfileHandler(profileFraction int, cb func([]BlockProfileRecord)) error {
	return env.on(MutexProfile, profileFraction, cb == nil, func(s snapshot) { cb(s.blocks) })
}

// RegisterPprofThreadCreationProfileHandler registers a handler for the stacks that created operating system threads. One in profileRate
// threads has a record; it is at least 1. The handler is called if threads were created since the last snapshot; the first has
// those that existed before.
func (env *ProfilerEnv) RegisterPprofThreadCreationProfileHandler(profileRate int, cb func([]StackRecord)) error {
	return env.on(ThreadCreationProfile, profileRate, cb == nil, func(s snapshot) {
		if len(s.stacks) > 0 {
			cb(s.stacks)
		}
	})
}

// profileHandler is a handler for a profile, with a goroutine of its own.
type profileHandler struct {
	callback
	call     func(snapshot)
	open     openProfile
	now      chan chan struct{} // asks for a snapshot; the goroutine closes what it receives when the handler has returned
	interval chan time.Duration // sets the time between snapshots
	stop     chan struct{}      // closed to end the goroutine
	stopOnce sync.Once
}

// on registers a handler.
func (env *ProfilerEnv) on(kind Profile, rate int, isNil bool, call func(snapshot)) error {
	a := env.agent
	switch {
	case a == nil:
		return ErrClosed
	case isNil:
		return fmt.Errorf("glti: %s: %w", kind.method(), errNilCallback)
	case rate < 1:
		return fmt.Errorf("glti: %s: rate %d: must be at least 1", kind.method(), rate)
	}
	open, err := impl.openProfile(kind, rate)
	if err != nil {
		return fmt.Errorf("glti: %s: %w", kind.method(), err)
	}
	h := &profileHandler{
		callback: callback{agent: a, method: kind.method()},
		call:     call,
		open:     open,
		now:      make(chan chan struct{}),
		interval: make(chan time.Duration),
		stop:     make(chan struct{}),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		open.close()
		return ErrClosed
	}
	a.profiles[kind] = append(a.profiles[kind], h)
	go h.loop(a.every)
	return nil
}

// loop takes snapshots until the handler is removed.
func (h *profileHandler) loop(every time.Duration) {
	impl.quiet()
	ticker := time.NewTicker(orDefault(every))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			h.snapshot()
		case done := <-h.now:
			h.snapshot()
			close(done)
		case every := <-h.interval:
			ticker.Reset(orDefault(every))
		case <-h.stop:
			return
		}
		if h.removed.Load() { // the handler panicked
			h.end()
			return
		}
	}
}

// end ends the collection. Then the loop returns, and so do calls that wait for it.
func (h *profileHandler) end() {
	h.removed.Store(true)
	h.stopOnce.Do(func() {
		h.open.close()
		close(h.stop)
	})
}

func orDefault(every time.Duration) time.Duration {
	if every <= 0 {
		return DefaultInterval
	}
	return every
}

// snapshot takes a snapshot and calls the handler.
func (h *profileHandler) snapshot() {
	s, err := h.open.snapshot()
	if err != nil {
		report(Report{Agent: h.agent.name, Method: h.method, Err: err})
		return
	}
	done := make(chan struct{})
	go func() { // its own goroutine, because a handler may end it
		defer close(done)
		h.run(func() { h.call(s) })
	}()
	<-done
}

// Snapshot takes a snapshot of all profiles that the agent has handlers for, and returns when the handlers have returned. A handler must
// not call it.
func (env *ProfilerEnv) Snapshot() {
	for _, h := range env.all() {
		done := make(chan struct{})
		select {
		case h.now <- done:
			select {
			case <-done:
			case <-h.stop:
			}
		case <-h.stop:
		}
	}
}

// SetInterval sets the time between two snapshots of the agent's profiles, those whose handlers are registered and those of later
// ones. 0 selects [DefaultInterval].
func (env *ProfilerEnv) SetInterval(every time.Duration) {
	if env.agent == nil {
		return
	}
	env.agent.mu.Lock()
	env.agent.every = every
	env.agent.mu.Unlock()
	for _, h := range env.all() {
		select {
		case h.interval <- every:
		case <-h.stop:
		}
	}
}

// all returns the agent's handlers.
func (env *ProfilerEnv) all() (all []*profileHandler) {
	if env.agent == nil {
		return nil
	}
	env.agent.mu.Lock()
	defer env.agent.mu.Unlock()
	for _, kind := range Profiles() {
		all = append(all, env.agent.profiles[kind]...)
	}
	return all
}

// Unregister removes the handlers that the agent has registered for a profile, and ends its collection. A call that has begun continues.
func (env *ProfilerEnv) Unregister(kind Profile) {
	if env.agent == nil {
		return
	}
	env.agent.mu.Lock()
	list := env.agent.profiles[kind]
	delete(env.agent.profiles, kind)
	env.agent.mu.Unlock()
	for _, h := range list {
		h.end()
	}
}
