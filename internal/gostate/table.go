package gostate

import (
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
)

// chunkSize is how many entries are allocated at once.
const chunkSize = 512

// Table maps the IDs of live goroutines to values. It uses the memory of removed goroutines again, and frees most of it when
// many have ended. Values do not move. IDs are not 0.
//
// Values are in chunks, found by an index with open addressing. The index is divided into segments that grow alone and by a
// quarter, so growing never holds two copies of more than a 256th of it and never stops the stream for long. An index word
// is the upper half of a hash and the number of the slot plus one. The position of a word depends only on the hash, so
// growing and deleting do not access the values.
type Table[T any] struct {
	chunks  []*[chunkSize]slot[T] // nil for a chunk that was freed
	uses    []chunkUse
	vacant  []uint64 // bit set of the chunks that have a free slot
	holes   []uint32 // numbers of freed chunks
	current uint32   // the chunk of the next new value

	live  int
	free  int // slots in chunks without a value
	limit int // of live

	recent   [1 << 8]found[T] // cache of Find, by the lower bits of the ID
	seeds    [2]uint64        // the target chooses the IDs; it must not be able to choose collisions
	segments [256]segment
}

// found is a goroutine and where its value is. The ID is 0 if there is none.
type found[T any] struct {
	id    uint64
	value *T
}

// slot is a goroutine and its value. The ID of a free slot is 0.
type slot[T any] struct {
	id    uint64
	value T
}

// chunkUse says which slots of a chunk have a value.
type chunkUse struct {
	taken [chunkSize / 64]uint64 // bit set
	count int
}

// NewTable returns a table for limit goroutines; 0 means no limit.
func NewTable[T any](limit int) Table[T] {
	if limit <= 0 {
		limit = math.MaxUint32 - chunkSize
	}
	return Table[T]{limit: limit, seeds: [2]uint64{rand.Uint64(), rand.Uint64() | 1}}
}

// Len returns the number of goroutines in the table.
func (t *Table[T]) Len() int { return t.live }

// hash returns the hash of an ID. A folded 128-bit product mixes all IDs well.
func (t *Table[T]) hash(id uint64) uint64 {
	hi, lo := bits.Mul64(id^t.seeds[0], t.seeds[1])
	return hi ^ lo
}

// segmentOf returns the segment of a hash. It uses other bits than the position within the segment.
func (t *Table[T]) segmentOf(hash uint64) *segment { return &t.segments[uint8(hash)] }

// at returns the slot with a number.
func (t *Table[T]) at(n uint32) *slot[T] { return &t.chunks[n/chunkSize][n%chunkSize] }

// Find returns the value of a goroutine, or nil.
func (t *Table[T]) Find(id uint64) *T {
	if r := &t.recent[uint8(id)]; r.id == id {
		return r.value
	}
	return t.lookUp(id)
}

// lookUp finds a value in the index.
func (t *Table[T]) lookUp(id uint64) *T {
	hash := t.hash(id)
	seg := t.segmentOf(hash)
	if len(seg.words) == 0 {
		return nil
	}
	for i := seg.home(hash); ; i = seg.next(i) {
		word := seg.words[i]
		if word == 0 {
			return nil
		}
		if (word^hash)>>32 == 0 {
			if s := t.at(uint32(word) - 1); s.id == id {
				t.recent[uint8(id)] = found[T]{id, &s.value}
				return &s.value
			}
		}
	}
}

// Insert returns the value of a goroutine that is not in the table; nil if the table is full or the ID is 0. The value is
// zero, or as it was when another goroutine was removed.
func (t *Table[T]) Insert(id uint64) *T {
	if t.live >= t.limit || id == 0 {
		return nil
	}
	n := t.take()
	s := t.at(n)
	s.id = id
	hash := t.hash(id)
	t.segmentOf(hash).insert(hash>>32<<32 | uint64(n+1))
	t.live++
	return &s.value
}

// Remove removes a goroutine that is in the table. Its value is kept for the next one.
func (t *Table[T]) Remove(id uint64) {
	if r := &t.recent[uint8(id)]; r.id == id {
		*r = found[T]{}
	}
	hash := t.hash(id)
	seg := t.segmentOf(hash)
	for i := seg.home(hash); ; i = seg.next(i) {
		if word := seg.words[i]; (word^hash)>>32 == 0 && t.at(uint32(word)-1).id == id {
			seg.remove(i)
			t.release(uint32(word) - 1)
			t.live--
			return
		}
	}
}

// Clear removes all goroutines and frees their memory.
func (t *Table[T]) Clear() { *t = NewTable[T](t.limit) }

// All visits the goroutines in the order of their slots. The visitor may remove the one that it is at.
func (t *Table[T]) All() iter.Seq2[uint64, *T] {
	return func(yield func(uint64, *T) bool) {
		for i := 0; t.Chunk(i, yield); i++ {
		}
	}
}

// Chunk visits the goroutines of one part of the table, as All does. It reports whether there may be more parts, and false
// if yield returned false.
func (t *Table[T]) Chunk(i int, yield func(uint64, *T) bool) bool {
	if i >= len(t.chunks) {
		return false
	}
	if chunk := t.chunks[i]; chunk != nil {
		for j := range chunk {
			if s := &chunk[j]; s.id != 0 && !yield(s.id, &s.value) {
				return false
			}
		}
	}
	return true
}

// take returns a free slot. If the current chunk is full it uses the lowest chunks, so that the highest become empty.
func (t *Table[T]) take() uint32 {
	if t.current >= uint32(len(t.uses)) || t.chunks[t.current] == nil || t.uses[t.current].count == chunkSize {
		t.current = t.pick()
	}
	c := t.current
	u := &t.uses[c]
	n := u.first()
	u.taken[n/64] |= 1 << (n % 64)
	u.count++
	t.free--
	if u.count == chunkSize {
		t.vacant[c/64] &^= 1 << (c % 64)
	}
	return c*chunkSize + n
}

// first returns the first free slot of a chunk that has one.
func (u *chunkUse) first() uint32 {
	i := 0
	for u.taken[i] == math.MaxUint64 {
		i++
	}
	return uint32(i*64 + bits.TrailingZeros64(^u.taken[i]))
}

// pick returns a chunk with a free slot, or a new chunk if there is none.
func (t *Table[T]) pick() uint32 {
	for i, word := range t.vacant {
		if word != 0 {
			return uint32(i*64 + bits.TrailingZeros64(word))
		}
	}
	var c uint32
	if n := len(t.holes); n > 0 {
		c, t.holes = t.holes[n-1], t.holes[:n-1]
	} else {
		c = uint32(len(t.chunks))
		t.chunks = append(t.chunks, nil)
		t.uses = append(t.uses, chunkUse{})
		if int(c/64) == len(t.vacant) {
			t.vacant = append(t.vacant, 0)
		}
	}
	t.chunks[c] = new([chunkSize]slot[T])
	t.uses[c] = chunkUse{}
	t.vacant[c/64] |= 1 << (c % 64)
	t.free += chunkSize
	return c
}

// release frees a slot. An empty chunk is freed only if a chunk's worth of other slots is free, so that a
// slightly varying number of goroutines does not allocate.
func (t *Table[T]) release(n uint32) {
	c, n := n/chunkSize, n%chunkSize
	u := &t.uses[c]
	t.chunks[c][n].id = 0
	u.taken[n/64] &^= 1 << (n % 64)
	u.count--
	t.free++
	t.vacant[c/64] |= 1 << (c % 64)
	if u.count == 0 && t.free >= 2*chunkSize {
		t.chunks[c] = nil
		t.vacant[c/64] &^= 1 << (c % 64)
		t.holes = append(t.holes, c)
		t.free -= chunkSize
	}
}
