// Package allocsample is the probe set that reports the allocations which the runtime itself samples for its memory profile: on
// average one in runtime.MemProfileRate bytes. It costs next to nothing, because it is hit as rarely.
//
// The central type is [Set]. [Set.Read] returns estimates of all allocations, in the form of package malloc.
//
// # What is estimated
//
// The runtime samples an object of s bytes with the probability p = 1-exp(-s/rate), so each sample has the weight 1/p
// (runtime/mprof.go, runtime.MemProfileRate). The estimates are unbiased. Sizes are those of size classes. Of the objects that
// share a block of 16 bytes (the tiny allocator), the block counts as one object.
package allocsample

import (
	"fmt"
	"math"
	"sync"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/malloc"
)

//go:generate go run ../csrc/flatten -ebpf -headers ../csrc -source probes.c -list probes.c -package allocsample -out code.go -code code

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// maxKeys bounds the numbers of goroutines and of places with sums of their own.
const maxKeys = 1 << 17

// profiledM is the first release in which mProf_Malloc has an m as first parameter.
const profiledM = 23

// A Set collects the samples of one session.
type Set struct {
	Probes *probe.Set

	rate       func() (int64, error)
	mu         sync.Mutex
	sum        Estimate // its Rate is 0 until the first sample
	unknown    uint64   // samples whose rate could not be read
	goroutines map[uint64]*goroutine
	places     map[placeKey]*place
	other      estimate // of goroutines and of places that have no room
	otherPlace estimate
}

type placeKey struct {
	stack *event.Stack
	size  uint64
}

type goroutine struct {
	estimate
	gopc, startpc uint64
}

type place struct {
	estimate
	key uint64
}

// estimate is the sum of the weighted objects and bytes of some samples.
type estimate struct{ objects, bytes float64 }

func (e *estimate) add(o estimate) { e.objects, e.bytes = e.objects+o.objects, e.bytes+o.bytes }

func (e estimate) sums() allocs.Sums {
	return allocs.Sums{Objects: uint64(math.Round(e.objects)), Bytes: uint64(math.Round(e.bytes))}
}

// Estimate describes the samples of a session.
type Estimate struct {
	Rate     int64   // the mean number of bytes between two samples
	Samples  uint64  // their number
	Variance float64 // of the total number of bytes, in bytes squared
}

// New returns a set for a program whose runtime.MemProfileRate is read by rate.
func New(rate func() (int64, error)) *Set {
	s := &Set{rate: rate, goroutines: map[uint64]*goroutine{}, places: map[placeKey]*place{}}
	d := probe.Declaration{Program: "mProf_Malloc", Funcs: []string{"runtime.mProf_Malloc"}, Words: 2, NeedsG: true, Fence: probe.Untimed,
		Without: "samples of allocations are missing", Until: profiledM}
	since := d
	since.Program, since.Words, since.Since, since.Until = "mProf_Malloc_m", 3, profiledM, 0
	s.Probes = &probe.Set{Name: "allocation samples", Code: &code, Probes: []probe.Declaration{d, since}, Decode: s.decode}
	return s
}

// Attached reports whether a session receives samples.
func (s *Set) Attached(to *probe.Session) bool {
	return to.Attached(s.Probes, "mProf_Malloc") || to.Attached(s.Probes, "mProf_Malloc_m")
}

// decode receives a sample.
func (s *Set) decode(n *probe.Note) {
	size, gopc, startpc := n.Word(), n.Word(), n.Word()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(n.G, n.Stack, size, gopc, startpc)
}

func (s *Set) add(id uint64, stack *event.Stack, size, gopc, startpc uint64) {
	if s.sum.Rate == 0 {
		if rate, err := s.rate(); err == nil {
			s.sum.Rate = rate
		}
	}
	p := 1.0 // the runtime samples everything
	if s.sum.Rate != 1 {
		p = -math.Expm1(-float64(size) / float64(s.sum.Rate))
	}
	if s.sum.Rate == 0 || size == 0 {
		s.unknown++
		return
	}
	e := estimate{1 / p, float64(size) / p}
	s.sum.Samples++
	s.sum.Variance += (1 - p) * e.bytes * e.bytes
	if g := s.goroutines[id]; g != nil {
		g.add(e)
	} else if len(s.goroutines) < maxKeys {
		s.goroutines[id] = &goroutine{e, gopc, startpc}
	} else {
		s.other.add(e)
	}
	key := placeKey{stack, size}
	if at := s.places[key]; at != nil {
		at.add(e)
	} else if len(s.places) < maxKeys {
		s.places[key] = &place{e, uint64(len(s.places) + 1)}
	} else {
		s.otherPlace.add(e)
	}
}

// Read returns estimates of the allocations since the session began, and describes the samples. Requested and Tiny are 0. The
// error reports that the program has changed its rate, or does not sample allocations.
func (s *Set) Read(from *probe.Session) (*malloc.Counts, Estimate, error) {
	numbers, err := from.SetNumbers(s.Probes)
	if err != nil {
		return nil, Estimate{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rate, err := s.rate()
	switch {
	case err != nil && s.sum.Rate == 0:
		return nil, Estimate{}, err
	case err == nil && s.sum.Rate != 0 && rate != s.sum.Rate: // if it cannot be read any more, the process has exited
		return nil, Estimate{}, fmt.Errorf("the program has changed runtime.MemProfileRate from %d to %d: its allocations cannot be estimated", s.sum.Rate, rate)
	case err == nil:
		s.sum.Rate = rate
	}
	c := &malloc.Counts{Goroutines: map[uint64]malloc.Goroutine{}, Places: map[uint64]malloc.Place{},
		Other: s.other.sums(), OtherPlace: s.otherPlace.sums(), Lost: numbers.Lost + s.unknown}
	total := s.other
	for id, g := range s.goroutines {
		c.Goroutines[id] = malloc.Goroutine{Sums: g.sums(), GoPC: g.gopc, StartPC: g.startpc}
		total.add(g.estimate)
	}
	for key, at := range s.places {
		c.Places[at.key] = malloc.Place{Sums: at.sums(), Stack: key.stack, Size: key.size}
	}
	c.Total = total.sums()
	return c, s.sum, nil
}
