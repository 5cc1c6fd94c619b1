package allocs

import (
	"math"
	"time"

	"github.com/loupe-go/loupe/event"
)

// Sums are the numbers of some allocations.
type Sums struct {
	Objects   uint64 // heap objects, as in runtime.MemStats.Mallocs; each is one call of the allocator
	Bytes     uint64 // bytes that they take, as in runtime.MemStats.TotalAlloc
	Requested uint64 // bytes that were asked for
	Tiny      uint64 // objects that share blocks of 16 bytes
}

// Add adds the numbers of other allocations.
func (s *Sums) Add(o Sums) {
	s.Objects += o.Objects
	s.Bytes += o.Bytes
	s.Requested += o.Requested
	s.Tiny += o.Tiny
}

// Minus returns the numbers without those of earlier allocations. It returns 0 instead of negative numbers.
func (s Sums) Minus(earlier Sums) Sums {
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	return Sums{less(s.Objects, earlier.Objects), less(s.Bytes, earlier.Bytes), less(s.Requested, earlier.Requested), less(s.Tiny, earlier.Tiny)}
}

// Counts are the allocations between two moments. Goroutines, Creators and OtherGoroutines add up to Total, and so do Places and
// OtherPlaces, unless a session does not sum by goroutine, or not by place.
type Counts struct {
	Began, Ended time.Time
	Total        Sums

	Goroutines      []Goroutine
	Creators        []Creator // goroutines beyond the number that a session sums up each by itself
	OtherGoroutines Sums      // goroutines for whose creators there was no room either

	// Places beyond the number that a session sums up each by itself are combined by their innermost callers. These have
	// truncated stacks.
	Places      []Place
	OtherPlaces Sums // places for whose innermost callers there was no room either

	// Lost is the maximum number of objects that were not counted because probes interrupted each other, or of samples that did
	// not fit into the buffer.
	Lost uint64

	// Rate is 0 if every allocation was counted. Otherwise the sums are estimates from Samples allocations, of which the runtime
	// samples on average one per Rate bytes (runtime.MemProfileRate). Requested and Tiny are then 0, and types are unknown.
	// Variance is that of Total.Bytes, in bytes squared.
	Rate     int64
	Samples  uint64
	Variance float64
}

// StdErr returns the standard error of Total.Bytes in bytes. It is 0 if every allocation was counted.
func (c *Counts) StdErr() float64 { return math.Sqrt(c.Variance) }

// A Goroutine is a goroutine that has allocated, directly or in the runtime on its behalf.
type Goroutine struct {
	ID     uint64       // 0: threads of the runtime without a goroutine
	Origin event.Origin // zero if unknown
	Sums
}

// A Creator is a go statement whose goroutines have allocated.
type Creator struct {
	CreatedBy event.Frame
	Sums
}

// A Place is where objects of one type and size class were allocated.
type Place struct {
	Key   uint64       // identifies the place in all counts of a session
	Stack *event.Stack // innermost frame first; nil if it is unknown or if the session records no stacks
	Type  string       // of the object, or of its elements; empty if it has no type or an unknown one
	Size  uint64       // of each object, in bytes; 0: objects of the tiny allocator
	Sums
}

// Since returns the allocations after earlier counts of the same session.
func (c *Counts) Since(earlier *Counts) *Counts {
	d := &Counts{
		Began: earlier.Ended, Ended: c.Ended, Total: c.Total.Minus(earlier.Total), Lost: c.Lost - min(c.Lost, earlier.Lost),
		OtherGoroutines: c.OtherGoroutines.Minus(earlier.OtherGoroutines), OtherPlaces: c.OtherPlaces.Minus(earlier.OtherPlaces),
		Rate: c.Rate, Samples: c.Samples - min(c.Samples, earlier.Samples), Variance: max(0, c.Variance-earlier.Variance),
	}
	d.Goroutines = since(c.Goroutines, earlier.Goroutines, func(g *Goroutine) (uint64, *Sums) { return g.ID, &g.Sums })
	d.Creators = since(c.Creators, earlier.Creators, func(c *Creator) (event.Frame, *Sums) { return c.CreatedBy, &c.Sums })
	d.Places = since(c.Places, earlier.Places, func(p *Place) (uint64, *Sums) { return p.Key, &p.Sums })
	return d
}

// since returns the elements of a list with the differences to earlier elements, without those that have none.
func since[E any, K comparable](now, earlier []E, of func(*E) (K, *Sums)) []E {
	before := make(map[K]Sums, len(earlier))
	for i := range earlier {
		key, sums := of(&earlier[i])
		before[key] = *sums
	}
	var list []E
	for _, e := range now {
		key, sums := of(&e)
		if *sums = sums.Minus(before[key]); *sums != (Sums{}) {
			list = append(list, e)
		}
	}
	return list
}
