package idtable

import (
	"math/bits"
	"math/rand/v2"
)

// A Table finds things by ID. It is a hash table with a seed of its own, so that no trace can choose its collisions.
type Table[T any] struct {
	slots []slot[T] // a power of two
	n     int
	shift uint8 // from a hash to an index into slots
	seed  [2]uint64
}

// A slot is a place for one thing.
type slot[T any] struct {
	id   uint64
	item *T // nil when the slot is free
}

const minSlots = 64

// NewTable returns an empty table.
func NewTable[T any]() Table[T] {
	t := Table[T]{seed: [2]uint64{rand.Uint64(), rand.Uint64() | 1}}
	t.resize(minSlots)
	return t
}

func (t *Table[T]) resize(n int) {
	old := t.slots
	t.slots = make([]slot[T], n)
	t.shift = uint8(64 - bits.Len(uint(n-1)))
	for _, s := range old {
		if s.item != nil {
			t.place(s)
		}
	}
}

// slot returns where the search for an ID begins.
func (t *Table[T]) slot(id uint64) uint64 {
	return ((id ^ t.seed[0]) * t.seed[1]) >> t.shift
}

// Len returns the number of things.
func (t *Table[T]) Len() int { return t.n }

// Find returns the thing with an ID; nil when there is none.
func (t *Table[T]) Find(id uint64) *T {
	mask := uint64(len(t.slots) - 1)
	for i := t.slot(id); ; i++ {
		s := &t.slots[i&mask]
		if s.id == id || s.item == nil {
			return s.item
		}
	}
}

// place puts a thing into the first free slot for its ID.
func (t *Table[T]) place(s slot[T]) {
	mask := uint64(len(t.slots) - 1)
	for i := t.slot(s.id); ; i++ {
		if at := &t.slots[i&mask]; at.item == nil {
			*at = s
			return
		}
	}
}

// Add adds a thing with an ID that is not in the table.
func (t *Table[T]) Add(id uint64, item *T) {
	if t.n++; 4*t.n > 3*len(t.slots) {
		t.resize(2 * len(t.slots))
	}
	t.place(slot[T]{id, item})
}

// Remove removes the thing with an ID, if there is one.
func (t *Table[T]) Remove(id uint64) {
	mask := uint64(len(t.slots) - 1)
	hole := t.slot(id)
	for ; ; hole++ {
		s := &t.slots[hole&mask]
		if s.item == nil {
			return
		}
		if s.id == id {
			break
		}
	}
	t.n--
	// What follows without a gap moves up, unless the search for it begins behind the hole.
	for i := hole + 1; ; i++ {
		s := t.slots[i&mask]
		if s.item == nil {
			break
		}
		if (i-t.slot(s.id))&mask >= (i-hole)&mask {
			t.slots[hole&mask] = s
			hole = i
		}
	}
	t.slots[hole&mask] = slot[T]{}
}

// Clear removes all things.
func (t *Table[T]) Clear() {
	clear(t.slots)
	t.n = 0
}
