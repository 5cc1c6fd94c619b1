package gostate

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
