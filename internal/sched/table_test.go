package sched

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestTable compares with a map while goroutines come and go, in waves so that everything grows and shrinks.
func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	table := newTable(1 << 30)
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
				table.remove(table.find(id))
				if table.find(id) != nil {
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
			table.insert(id).parent = ^id
		}
		checkTable(t, &table)
		for _, id := range ids {
			if en := table.find(id); en == nil || en.id != id || en.parent != ^id {
				t.Fatalf("wave %d: %d is not found", wave, id)
			}
		}
		for range 1000 {
			if id := rng.Uint64(); !truth[id] && table.find(id) != nil {
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
	table := newTable(1 << 30)
	const n = 100_000
	for id := range uint64(n) {
		table.insert(id + 1)
	}
	for id := range uint64(n) {
		table.remove(table.find(id + 1))
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
		table.insert(id + 1)
	}
	if grown := len(table.chunks) - n/chunkSize; grown > 1 || holes < n/chunkSize-2 {
		t.Errorf("%d chunks more than at first, %d were given back", grown, holes)
	}
	checkTable(t, &table)
}

func TestEntrySize(t *testing.T) {
	if size := unsafe.Sizeof(entry{}); size != 112 {
		t.Errorf("an entry has %d bytes: chunks were laid out for 112", size)
	}
}
