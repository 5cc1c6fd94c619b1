package inline

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/inline/trampoline"
	"github.com/loupe-go/loupe/internal/probe/malloc"
)

// Values of the setting "by" of the set that counts allocations.
const mallocByGoroutine, mallocByPlace = 1, 2

// A mallocWorld is a world with the set that counts allocations. Its size classes are the multiples of 8, above 1,024 bytes
// those of 128.
type mallocWorld struct {
	*world
	tables []csrc.Table
}

// Offsets of its made-up runtime.
const atMcache, atTiny, atTinyOffset, atPtrdata = 72, 16, 24, 8

func newMallocWorld(t testing.TB, by uint64, stackDepth uint32, settings map[string]uint64) *mallocWorld {
	mw := &mallocWorld{}
	mw.world = newWorld(t, func(o *Options) {
		set := madeUpSet("allocations", malloc.Code(), len(csrc.Runtime.Probes))
		set.Kind = csrc.KindSet
		number := func(name string) int { return slices.Index(set.Code.Settings, name) }
		for name, v := range map[string]uint64{"by": by, "header_above": 512, "small_max": 32760, "type_ptrdata": atPtrdata, "p_mcache": atMcache,
			"mcache_tiny": atTiny, "mcache_tinyoffset": atTinyOffset} {
			set.Settings[number(name)] = v
		}
		for name, v := range settings {
			set.Settings[number(name)] = v
		}
		for i := range 384 {
			class := i // of sizes up to 1,024
			if i > 128 {
				class = i - 129 + 7
			}
			set.Settings[number("rounded")+i/8] |= uint64(byte(class)) << (i % 8 * 8)
		}
		for _, table := range malloc.New(malloc.Options{}).Probes.Tables {
			const cells = 1 << 10
			set.Tables = append(set.Tables, csrc.Table{Offset: uint32(o.Geometry.Tables), Mask: cells - 1, Values: uint32(table.Values)})
			o.Geometry.Tables = alignUp(o.Geometry.Tables+8+cells*8*(2+table.Values), 64)
		}
		mw.tables = set.Tables
		o.Sets = append(o.Sets, set)
		o.Config.StackDepth = stackDepth
	})
	return mw
}

func (w *mallocWorld) probe() uintptr {
	return w.body(Place{Set: 1, Probe: 0, G: gRegister, Untimed: true})
}

// TestMalloc allocates objects of many sizes.
func TestMalloc(t *testing.T) {
	w := newMallocWorld(t, mallocByGoroutine|mallocByPlace, 32, map[string]uint64{"outer": 0x500000, "outer_size": 0x1000})
	th := w.thread(7, 1234, 1)
	body := w.probe()
	pointers, bytes, cache := w.object(64), w.object(64), w.object(64)
	put(pointers+atPtrdata, 8)
	put(th.g+atGopc, 0x600100)
	put(th.g+atStartpc, 0x600200)
	th.setCaller(0x400123)
	th.frames(0x401000, 0x402000)
	var objects, sum, requested, tiny uint64
	for _, c := range []struct {
		size, kind, block, offset uint64 // block and offset are of the current block for tiny objects
		bytes                     uint64
	}{
		{40, pointers, 0, 0, 40}, {41, bytes, 0, 0, 48}, {512, pointers, 0, 0, 512}, {513, pointers, 0, 0, 528}, {1000, pointers, 0, 0, 1008},
		{1016, pointers, 0, 0, 1024}, {1017, pointers, 0, 0, 1152}, {1024, bytes, 0, 0, 1024}, {1025, 0, 0, 0, 1152}, {32760, bytes, 0, 0, 32768},
		{32761, bytes, 0, 0, 32768}, {32769, pointers, 0, 0, 40960}, {100000, 0, 0, 0, 106496}, {8, pointers, 0, 0, 8},
		{8, 0, 0, 4, 16}, {8, 0, 1, 4, 0}, {8, bytes, 1, 9, 16}, {3, 0, 1, 13, 0}, {6, 0, 1, 9, 0}, {12, 0, 1, 2, 0}, {12, 0, 1, 5, 16}, {15, 0, 1, 1, 0}, {15, 0, 1, 2, 16},
	} {
		put(th.p+atMcache, cache)
		put(cache+atTiny, c.block)
		put(cache+atTinyOffset, c.offset)
		th.args(c.size, c.kind).hit(body)
		objects, sum, requested = objects+1, sum+c.bytes, requested+c.size
		if c.kind != pointers && c.size < 16 {
			tiny++
		}
		got := w.region.Table(w.tables[0], 2).Keys[7]
		if want := []uint64{sum, requested, tiny, 0x600100, 0x600200}; got.Counted != objects || !slices.Equal(got.Values, want) {
			t.Fatalf("%+v: %+v, want %d of %v", c, got, objects, want)
		}
	}
	th.args(0, bytes).hit(body) // no object
	th.setCaller(0x500800)
	th.args(40, bytes).hit(body) // counted where mallocgc was called
	th.setCaller(0x400123)
	th.setG(th.g0)
	th.args(40, bytes).hit(body) // for the goroutine
	objects, sum = objects+1, sum+40
	if got := w.region.Table(w.tables[0], 2).Keys[7]; got.Counted != objects {
		t.Errorf("%d objects, want %d", got.Counted, objects)
	}
	var placed, placedBytes uint64
	events, stacks := w.events()
	for key, c := range w.region.Table(w.tables[2], 3).Keys {
		placed, placedBytes = placed+c.Counted, placedBytes+c.Values[0]
		note := slices.IndexFunc(events, func(e got) bool { return binary.LittleEndian.Uint64(e.raw[recordSize:]) == key })
		if note < 0 || c.Values[3] != 1 {
			t.Errorf("no note for place %#x: %v", key, c.Values)
			continue
		}
		if pcs := stacks[events[note].Stack]; c.Values[5] != 40 && !slices.Equal(pcs, []uint64{0x400123, 0x401000, 0x402000}) {
			t.Errorf("place %#x: stack %#x", key, pcs)
		}
	}
	if placed != objects || placedBytes != sum {
		t.Errorf("places have %d objects of %d bytes, want %d of %d", placed, placedBytes, objects, sum)
	}
}

// TestMallocManyPlaces allocates at more places than the table has room for. The others are summed by their innermost callers,
// which are the same for most of them.
func TestMallocManyPlaces(t *testing.T) {
	const places, innermost = 5000, 10
	w := newMallocWorld(t, mallocByPlace, 32, nil)
	th := w.thread(7, 1234, 1)
	body := w.probe()
	bytes := w.object(64)
	put(bytes+atPtrdata, 0)
	for i := range uint64(places) {
		th.setCaller(0x400123)
		th.frames(0x401000+i%innermost, 0x402000, 0x403000, 0x404000, 0x405000, 0x406000, 0x407000+i)
		th.args(40, bytes).hit(body)
	}
	var counted [5]uint64
	for i, table := range malloc.New(malloc.Options{}).Probes.Tables {
		cells := w.region.Table(w.tables[i], table.Kept)
		for key, c := range cells.Keys {
			counted[i] += c.Counted
			if table.Name == "callers" && (c.Values[3+2] != 0x400123 || c.Values[3+2+2] != 0x402000) {
				t.Errorf("callers %#x: %#x", key, c.Values)
			}
		}
	}
	if got := len(w.region.Table(w.tables[3], 2).Keys); got != innermost {
		t.Errorf("places have %d sequences of innermost callers, want %d", got, innermost)
	}
	if counted[2] == 0 || counted[2] > 1<<10 || counted[2]+counted[3] != places {
		t.Errorf("%d objects in tables, want %d of places and callers", counted, places)
	}
}

// BenchmarkMalloc measures what an allocation costs that is counted, by what it is summed by.
func BenchmarkMalloc(b *testing.B) {
	for _, c := range []struct {
		name   string
		by     uint64
		frames int
	}{{"goroutine", mallocByGoroutine, 0}, {"type", mallocByPlace, 0}, {"stack=5", mallocByPlace, 5}, {"stack=10", mallocByPlace, 10}, {"stack=20", mallocByPlace, 20},
		{"both=10", mallocByGoroutine | mallocByPlace, 10}} {
		b.Run(c.name, func(b *testing.B) {
			depth := uint32(0)
			if c.frames > 0 {
				depth = 32
			}
			w := newMallocWorld(b, c.by, depth, nil)
			th := w.thread(7, 1234, 1)
			var pcs []uint64
			for i := range max(c.frames-1, 0) {
				pcs = append(pcs, 0x401000+uint64(i)*64)
			}
			th.setCaller(0x400123)
			th.frames(pcs...)
			th.args(40, w.object(64))
			w.benchmark(b, w.probe(), th)
		})
	}
	b.Run("nothing", func(b *testing.B) {
		w := newMallocWorld(b, mallocByGoroutine, 0, nil)
		th := w.thread(7, 1234, 1)
		tail := w.tail()
		for b.Loop() {
			trampoline.Call(tail, &th.r)
		}
	})
}
