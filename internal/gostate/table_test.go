package gostate

import (
	"math/rand/v2"
	"testing"
)

// TestTable compares with a map while goroutines come and go, in waves so that everything grows and shrinks.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	table := NewTable[uint64](1 << 30)
	truth := map[uint64]bool{}
	var ids []uint64
	for wave := range 6 {
		target := []int{30_000, 20, 40_000, 35_000, 0, 700}[wave]
		for len(ids) != target {
			if rng.IntN(3) == 0 == (len(ids) < target) && len(ids) > 0 {
				i := rng.IntN(len(ids))
				id := ids[i]
				ids[i] = ids[len(ids)-1]
				ids = ids[:len(ids)-1]
				delete(truth, id)
				table.Remove(id)
				if table.Find(id) != nil {
					t.Fatalf("%d is found after it was removed", id)
				}
				continue
			}
			id := rng.Uint64() >> rng.IntN(50)
			if truth[id] || id == 0 {
				continue
			}
			truth[id] = true
			ids = append(ids, id)
			*table.Insert(id) = ^id
		}
		checkTable(t, &table)
		for _, id := range ids {
			if v := table.Find(id); v == nil || *v != ^id {
				t.Fatalf("wave %d: %d is not found", wave, id)
			}
		}
		for range 1000 {
			if id := rng.Uint64(); !truth[id] && table.Find(id) != nil {
				t.Fatalf("wave %d: %d is found", wave, id)
			}
		}
		if spare := table.free; target < 1000 && spare > 300*chunkSize/10 {
			t.Errorf("wave %d: %d slots are free with %d goroutines", wave, spare, target)
		}
	}
}

// TestTableGivesBack ends goroutines in the order in which they came: all but little is given back.
func TestTableGivesBack(t *testing.T) {
	table := NewTable[uint64](1 << 30)
	const n = 100_000
	for id := range uint64(n) {
		table.Insert(id + 1)
	}
	for id := range uint64(n) {
		table.Remove(id + 1)
	}
	checkTable(t, &table)
	words := 0
	for i := range table.segments {
		words += len(table.segments[i].words)
	}
	if table.free > 2*chunkSize || words > 256*64 {
		t.Errorf("%d slots and %d words are kept for nothing", table.free, words)
	}
	holes := len(table.holes)
	for id := range uint64(n) {
		table.Insert(id + 1)
	}
	if grown := len(table.chunks) - n/chunkSize; grown > 1 || holes < n/chunkSize-2 {
		t.Errorf("%d chunks more than at first, %d were given back", grown, holes)
	}
	checkTable(t, &table)
}

// checkTable verifies the index and the free slots.
func checkTable(t testing.TB, table *Table[uint64]) {
	t.Helper()
	words := 0
	for i := range table.segments {
		s := &table.segments[i]
		used := 0
		for _, word := range s.words {
			if word != 0 {
				used++
			}
		}
		if used != s.used || len(s.words) > 0 && used == len(s.words) {
			t.Fatalf("segment %d: %d words of %d, counted %d", i, used, len(s.words), s.used)
		}
		words += used
	}
	if words != table.live {
		t.Fatalf("%d words in the index, %d live", words, table.live)
	}
	free := 0
	for c, chunk := range table.chunks {
		u := table.uses[c]
		vacant := table.vacant[c/64]>>(c%64)&1 == 1
		if chunk == nil {
			if vacant {
				t.Fatalf("chunk %d was given back and is vacant", c)
			}
			continue
		}
		n := 0
		for i := range chunk {
			taken := u.taken[i/64]>>(i%64)&1 == 1
			if taken != (chunk[i].id != 0) {
				t.Fatalf("slot %d of chunk %d is taken: %v, and has ID %d", i, c, taken, chunk[i].id)
			}
			if !taken {
				n++
			}
		}
		if n+u.count != chunkSize || vacant != (n > 0) {
			t.Fatalf("chunk %d: %d free, %d used, vacant %v", c, n, u.count, vacant)
		}
		free += n
	}
	if free != table.free {
		t.Fatalf("%d free slots, counted %d", free, table.free)
	}
}
