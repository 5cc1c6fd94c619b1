package loupe

import (
	"errors"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/allocsample"
	"github.com/loupe-go/loupe/internal/probe/malloc"
)

// AllocsBy selects what allocations are summed by.
type AllocsBy uint8

// What allocations are summed by. Each costs the target some nanoseconds for each allocation.
const (
	AllocsByGoroutine AllocsBy = AllocsBy(malloc.ByGoroutine) // the goroutine, and the go statement that created it
	AllocsByPlace     AllocsBy = AllocsBy(malloc.ByPlace)     // the stack (up to Options.StackDepth), the type and the size class
)

// AllocOptions configures the counting of allocations. The zero value counts none.
type AllocOptions struct {
	By AllocsBy

	// Sample estimates the allocations from those that the runtime samples for its memory profile, on average one in
	// runtime.MemProfileRate bytes, instead of counting each. It costs the target next to nothing, but requires that the program
	// records the profile; the error wraps [ErrProfileOff] if it does not. The other options do not apply.
	Sample bool

	// Goroutines and Places are the numbers of goroutines and places with sums of their own, for each P of the target. Zero means
	// DefaultAllocKeys. Others are combined: see [allocs.Counts].
	Goroutines, Places int
}

const (
	// DefaultAllocKeys is the default of AllocOptions.Goroutines and AllocOptions.Places.
	DefaultAllocKeys = 1 << 14

	maxAllocKeys = 1 << 18

	mainGoroutine = 1
)

// errNoAllocs reports a session that does not count allocations.
var errNoAllocs = errors.New("the session does not count allocations: set Options.Allocs")

// allocSet is the set of probes that counts allocations, or the one that samples them.
type allocSet struct {
	counts  *malloc.Set
	samples *allocsample.Set
}

func (a *allocSet) probes() *probe.Set {
	if a.samples != nil {
		return a.samples.Probes
	}
	return a.counts.Probes
}

func (a *allocSet) attached(s *probe.Session) bool {
	if a.samples != nil {
		return a.samples.Attached(s)
	}
	return a.counts.Attached(s)
}

// read returns the allocations, and a description of the samples if they are estimated.
func (a *allocSet) read(s *probe.Session) (*malloc.Counts, allocsample.Estimate, error) {
	if a.samples != nil {
		return a.samples.Read(s)
	}
	c, err := a.counts.Read(s)
	return c, allocsample.Estimate{}, err
}

// set returns the set of probes that counts allocations.
func (o AllocOptions) set() *malloc.Set {
	keys := func(n int) int {
		if n == 0 {
			return DefaultAllocKeys
		}
		return n
	}
	return malloc.New(malloc.Options{By: malloc.By(o.By), Goroutines: keys(o.Goroutines), Places: keys(o.Places)})
}

// warnAllocs adds a warning about the cost of an engine that counts allocations.
func (s *Session) warnAllocs(engine, wanted Engine) {
	switch {
	case engine == EngineUprobe:
		s.probes.Warn(event.Warnf(event.WarnCost, "engine uprobe takes 1 µs or more for each allocation (estimates from samples take next to nothing: loupe allocs --sample)"))
	case wanted != engine:
		s.probes.Warn(event.Warnf(event.WarnEngine, "using engine inline (patches the process): engine uprobe would take 1 µs or more for each allocation"))
	}
}

// Allocs returns the allocations since the session began, or until it ended. It may be called at any time and from any
// goroutine. [allocs.Counts.Since] returns those between two calls. Their stacks are known only while [Session.Events] is
// being iterated.
//
// While the target runs, an allocation that is being counted may be counted in part. The counts of a session that has ended
// are complete. The error reports that Options.Allocs is not set, or that the counts could not be read.
func (s *Session) Allocs() (*allocs.Counts, error) {
	if s.allocs == nil {
		return nil, errNoAllocs
	}
	detached, asked := s.detached.Load(), time.Now()
	read, samples, err := s.allocs.read(s.probes)
	if err != nil {
		return nil, err
	}
	ended := asked.Add(time.Since(asked) / 2)
	if detached != nil {
		ended = *detached
	}
	c := &allocs.Counts{Began: s.began, Ended: ended, Total: read.Total, OtherGoroutines: read.Other, OtherPlaces: read.OtherPlace, Lost: read.Lost,
		Rate: samples.Rate, Samples: samples.Samples, Variance: samples.Variance}
	p := s.probes.Process()
	for id, g := range read.Goroutines {
		if id == mainGoroutine {
			g.GoPC = 0 // assembly code of the runtime, as in tracebacks
		}
		c.Goroutines = append(c.Goroutines, allocs.Goroutine{ID: id, Origin: p.Origin(g.GoPC, g.StartPC), Sums: g.Sums})
	}
	for pc, sums := range read.Creators {
		c.Creators = append(c.Creators, allocs.Creator{CreatedBy: p.Origin(pc, 0).CreatedBy, Sums: sums})
	}
	add := func(key uint64, from malloc.Place) {
		name := ""
		if from.Type != 0 {
			name, _ = p.TypeName(from.Type) // created by package reflect, or not known any more
		}
		c.Places = append(c.Places, allocs.Place{Key: key, Stack: from.Stack, Type: name, Size: from.Size, Sums: from.Sums})
	}
	for key, from := range read.Places {
		add(key, from)
	}
	for key, from := range read.Callers {
		if len(from.PCs) > 0 {
			from.Stack = &event.Stack{Frames: p.Frames(from.PCs, 0), Truncated: true}
		}
		add(key, from)
	}
	return c, nil
}

// AllocProfile converts allocations of the session to a profile like that of runtime/pprof: for each stack the number of objects
// and of bytes. Options.Allocs must have AllocsByPlace.
func (s *Session) AllocProfile(c *allocs.Counts) *profile.Profile {
	if s.probes == nil { // the session has no allocations
		return pprof.Allocs(c, pprof.Mapping{})
	}
	return pprof.Allocs(c, codeOf(s.probes.Process()))
}
