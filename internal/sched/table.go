package sched

import (
	"math/bits"
	"math/rand/v2"
)

// chunkSize is how many entries are allocated at once. With entries of 112 bytes a chunk is exactly seven of the Go
// heap's 8 KiB pages, so nothing is lost to rounding.
const chunkSize = 512

// table maps IDs to live goroutines. Entries are in chunks that never move, found by an index with open addressing.
//
// The index is divided into segments that grow alone and by a quarter, so growing never holds two copies of more than a
// 256th of it and never stops the stream for long. An index word is the upper half of a hash and the number of the slot
// plus one. The position of a word depends only on the hash, so growing and deleting do not access the entries.
type table struct {
	chunks  []*[chunkSize]entry // nil for a chunk that was freed
	uses    []chunkUse
	vacant  []uint64 // bit set of the chunks that have a free slot
	holes   []uint32 // numbers of freed chunks
	current uint32   // the chunk of the next new entry

	live  int
	free  int // slots in chunks without an entry
	limit int // of live

	recent   [recentEntries]*entry // cache of find, by the lower bits of the ID
	seeds    [2]uint64             // the target chooses the IDs; it must not be able to choose collisions
	segments [256]segment
}

const recentEntries = 256

// chunkUse says which slots of a chunk are free: those of a list, linked by entry.place, and those never used.
type chunkUse struct {
	list  uint16 // first free slot plus one
	fresh uint16 // slots from here on were never used
	used  uint16
}

func (u *chunkUse) full() bool { return u.list == 0 && u.fresh == chunkSize }

func newTable(limit int) table {
	return table{limit: limit, seeds: [2]uint64{rand.Uint64(), rand.Uint64() | 1}}
}

// hash returns the hash of an ID. A folded 128-bit product mixes all IDs well.
func (t *table) hash(id uint64) uint64 {
	hi, lo := bits.Mul64(id^t.seeds[0], t.seeds[1])
	return hi ^ lo
}

// segmentOf returns the segment of a hash. It uses other bits than the position within the segment.
func (t *table) segmentOf(hash uint64) *segment { return &t.segments[uint8(hash)] }

// at returns the entry of a slot.
func (t *table) at(slot uint32) *entry { return &t.chunks[slot/chunkSize][slot%chunkSize] }

// find returns the entry of a live goroutine, or nil.
func (t *table) find(id uint64) *entry {
	if en := t.recent[id%recentEntries]; en != nil && en.id == id {
		return en
	}
	en := t.lookUp(id)
	if en != nil {
		t.recent[id%recentEntries] = en
	}
	return en
}

// lookUp finds an entry in the index.
func (t *table) lookUp(id uint64) *entry {
	hash := t.hash(id)
	s := t.segmentOf(hash)
	if len(s.words) == 0 {
		return nil
	}
	for i := s.home(hash); ; i = s.next(i) {
		word := s.words[i]
		if word == 0 {
			return nil
		}
		if (word^hash)>>32 == 0 {
			if en := t.at(uint32(word) - 1); en.id == id {
				return en
			}
		}
	}
}

// insert returns an empty entry for an ID that is not in the table; nil if the table is full.
func (t *table) insert(id uint64) *entry {
	if t.live >= t.limit {
		return nil
	}
	slot := t.take()
	en := t.at(slot)
	*en = entry{id: id}
	hash := t.hash(id)
	t.segmentOf(hash).insert(hash>>32<<32 | uint64(slot+1))
	t.live++
	return en
}

// remove deletes a goroutine that is in the table.
func (t *table) remove(en *entry) {
	if recent := &t.recent[en.id%recentEntries]; *recent == en {
		*recent = nil
	}
	hash := t.hash(en.id)
	s := t.segmentOf(hash)
	for i := s.home(hash); ; i = s.next(i) {
		if word := s.words[i]; (word^hash)>>32 == 0 && t.at(uint32(word)-1) == en {
			s.remove(i)
			t.release(uint32(word) - 1)
			t.live--
			return
		}
	}
}

// take returns a free slot. If the current chunk is full it uses the lowest chunks, so that the highest become empty.
func (t *table) take() uint32 {
	if t.current >= uint32(len(t.uses)) || t.chunks[t.current] == nil || t.uses[t.current].full() {
		t.current = t.pick()
	}
	c := t.current
	u := &t.uses[c]
	n := u.fresh
	if u.list != 0 {
		n = u.list - 1
		u.list = uint16(t.chunks[c][n].place)
	} else {
		u.fresh++
	}
	u.used++
	t.free--
	if u.full() {
		t.vacant[c/64] &^= 1 << (c % 64)
	}
	return c*chunkSize + uint32(n)
}

// pick returns a chunk with a free slot, or a new chunk if there is none.
func (t *table) pick() uint32 {
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
	t.chunks[c] = new([chunkSize]entry)
	t.uses[c] = chunkUse{}
	t.vacant[c/64] |= 1 << (c % 64)
	t.free += chunkSize
	return c
}

// release frees a slot. An empty chunk is freed only if a chunk's worth of other slots is free, so that a
// slightly varying number of entries does not allocate.
func (t *table) release(slot uint32) {
	c, n := slot/chunkSize, slot%chunkSize
	u := &t.uses[c]
	t.chunks[c][n] = entry{place: uint32(u.list)}
	u.list = uint16(n + 1)
	u.used--
	t.free++
	t.vacant[c/64] |= 1 << (c % 64)
	if u.used == 0 && t.free >= 2*chunkSize {
		t.chunks[c] = nil
		t.vacant[c/64] &^= 1 << (c % 64)
		t.holes = append(t.holes, c)
		t.free -= chunkSize
	}
}

// segment is a part of the index. It uses linear probing without tombstones. An empty word is 0.
type segment struct {
	words []uint64
	used  int
}

// home returns the preferred position of a hash. It depends only on the upper half of the hash, which a
// word contains too.
func (s *segment) home(hash uint64) int { return int(hash >> 32 * uint64(len(s.words)) >> 32) }

func (s *segment) next(i int) int {
	if i++; i == len(s.words) {
		return 0
	}
	return i
}

func (s *segment) insert(word uint64) {
	if s.used >= len(s.words)-len(s.words)/8-1 { // at most 7/8 full
		s.resize(len(s.words) + len(s.words)/4 + 6)
	}
	s.place(word)
	s.used++
}

func (s *segment) place(word uint64) {
	i := s.home(word)
	for s.words[i] != 0 {
		i = s.next(i)
	}
	s.words[i] = word
}

// remove empties a position and moves displaced words after it up.
func (s *segment) remove(hole int) {
	for i := s.next(hole); s.words[i] != 0; i = s.next(i) {
		if s.distance(s.home(s.words[i]), i) >= s.distance(hole, i) {
			s.words[hole] = s.words[i]
			hole = i
		}
	}
	s.words[hole] = 0
	s.used--
	if len(s.words) > 64 && s.used < len(s.words)/4 {
		s.resize(2 * s.used)
	}
}

// distance returns the number of steps from one position to another.
func (s *segment) distance(from, to int) int {
	if to < from {
		to += len(s.words)
	}
	return to - from
}

// resize makes room for at least n words, and uses all of the allocated memory.
func (s *segment) resize(n int) {
	old := s.words
	s.words = append([]uint64(nil), make([]uint64, n)...)
	s.words = s.words[:cap(s.words)]
	for _, word := range old {
		if word != 0 {
			s.place(word)
		}
	}
}
