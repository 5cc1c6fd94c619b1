package idtable

import (
	"math/rand/v2"
	"testing"
)

func TestTable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	table := NewTable[uint64]()
	want := map[uint64]*uint64{}
	id := func() uint64 {
		switch rng.IntN(3) {
		case 0:
			return rng.Uint64N(300)
		case 1:
			return rng.Uint64N(300) << 32
		}
		return ^rng.Uint64N(300)
	}
	for range 200_000 {
		k := id()
		switch got := table.Find(k); {
		case got != want[k]:
			t.Fatalf("find(%d) = %v, want %v", k, got, want[k])
		case got == nil:
			want[k] = &k
			table.Add(k, &k)
		case rng.IntN(2) == 0:
			delete(want, k)
			table.Remove(k)
			table.Remove(k + 1000) // is not there
		}
		if table.n != len(want) {
			t.Fatalf("%d things, want %d", table.n, len(want))
		}
	}
	n := 0
	for _, s := range table.slots {
		if s.item == nil {
			continue
		}
		if n++; want[s.id] != s.item {
			t.Fatalf("a slot for %d", s.id)
		}
	}
	if n != len(want) {
		t.Errorf("%d things in slots, want %d", n, len(want))
	}
	table.Clear()
	if table.n != 0 || table.Find(7) != nil {
		t.Error("clear")
	}
}
