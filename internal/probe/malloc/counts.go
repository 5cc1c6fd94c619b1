package malloc

import (
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
)

// Counts are the allocations since the probes were enabled.
type Counts struct {
	Total      allocs.Sums
	Goroutines map[uint64]Goroutine   // by ID; 0: threads without a goroutine. Empty without ByGoroutine
	Creators   map[uint64]allocs.Sums // by the address of the go statement: goroutines that had no room in Goroutines
	Places     map[uint64]Place       // by a hash. Empty without ByPlace
	Callers    map[uint64]Place       // by a hash: places that had no room in Places
	Other      allocs.Sums            // of goroutines that had no room in Goroutines and in Creators
	OtherPlace allocs.Sums            // of places that had no room in Places and in Callers

	// Lost is the maximum number of allocations that were not counted.
	Lost uint64
}

// A Goroutine is a goroutine that has allocated.
type Goroutine struct {
	allocs.Sums
	GoPC, StartPC uint64 // the addresses of its go statement and of its start function; 0 if unknown
}

// A Place is where objects of one type and size class were allocated.
type Place struct {
	allocs.Sums
	Stack *event.Stack // nil if its addresses are unknown, and in Counts.Callers
	PCs   []uint64     // in Counts.Callers: the innermost return addresses
	Type  uint64       // the address of the type of the object or of its elements; 0: none
	Size  uint64       // of each object, in bytes; 0: of the tiny allocator
}

// The values of a cell in probes.c.
const (
	sums                       = 3
	shortStack                 = 6 // return addresses in Counts.Callers
	restGoroutines, restPlaces = 1, 2
)

// Attached reports whether a session counts allocations.
func (s *Set) Attached(to *probe.Session) bool { return to.Attached(s.Probes, program) }

// Read returns the counts of a session that has the set. An allocation that is being counted meanwhile may be counted in
// part. After the session has ended, the counts are complete.
func (s *Set) Read(from *probe.Session) (*Counts, error) {
	tables := map[string]probe.Cells{}
	for _, t := range s.Probes.Tables {
		cells, err := from.Table(s.Probes, t.Name)
		if err != nil {
			return nil, err
		}
		tables[t.Name] = cells
	}
	c := &Counts{Goroutines: map[uint64]Goroutine{}, Creators: map[uint64]allocs.Sums{}, Places: map[uint64]Place{}, Callers: map[uint64]Place{}}
	other := tables[rest]
	c.Other, c.OtherPlace = sumsOf(other.Keys[restGoroutines]), sumsOf(other.Keys[restPlaces])
	byGoroutine, byPlace := c.Other, c.OtherPlace
	for id, cell := range tables[goroutines].Keys {
		g := Goroutine{Sums: sumsOf(cell), GoPC: cell.Values[sums], StartPC: cell.Values[sums+1]}
		c.Goroutines[id] = g
		byGoroutine.Add(g.Sums)
	}
	for pc, cell := range tables[creators].Keys {
		c.Creators[pc] = sumsOf(cell)
		byGoroutine.Add(c.Creators[pc])
	}
	s.mu.Lock()
	for key, cell := range tables[places].Keys {
		p := Place{Sums: sumsOf(cell), Stack: s.stacks[key], Type: cell.Values[sums+1], Size: cell.Values[sums+2]}
		c.Places[key] = p
		byPlace.Add(p.Sums)
	}
	s.mu.Unlock()
	for key, cell := range tables[callers].Keys {
		p := Place{Sums: sumsOf(cell), Type: cell.Values[sums], Size: cell.Values[sums+1], PCs: cell.Values[sums+2:]}
		for len(p.PCs) > 0 && p.PCs[len(p.PCs)-1] == 0 {
			p.PCs = p.PCs[:len(p.PCs)-1]
		}
		c.Callers[key] = p
		byPlace.Add(p.Sums)
	}
	if c.Total = byGoroutine; s.by&ByGoroutine == 0 {
		c.Total = byPlace
	}
	numbers, err := from.SetNumbers(s.Probes)
	c.Lost = numbers.Lost + other.Overflow
	return c, err
}

func sumsOf(c probe.Cell) allocs.Sums {
	if len(c.Values) < sums {
		return allocs.Sums{}
	}
	return allocs.Sums{Objects: c.Counted, Bytes: c.Values[0], Requested: c.Values[1], Tiny: c.Values[2]}
}
