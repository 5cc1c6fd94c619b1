package inline

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Geometry is the shape of the memory that the target and the reader share.
type Geometry struct {
	Lanes  int // a power of two; at least twice as many as processors, so that few hits find none
	Ring   int // bytes of each lane's ring of events; a power of two
	Listed int // goroutines with large IDs that the filter has room for; a power of two
	Tables int // bytes of each lane's tables of counters

	Contexts  int // contexts of spans; a power of two, or 0
	Allocated int // goroutines whose allocations are counted; a power of two, or 0
}

// Bounds of a Geometry.
const (
	minLanes, maxLanes = 4, 1 << 12
	minRing, maxRing   = 1 << 16, 1 << 30
	maxListed          = 1 << 26

	// Alignment is what the address of the region in the target must be a multiple of.
	Alignment = 1 << 16
)

// GeometryFor returns a shape for a machine: bufferBytes is for all rings together; listed is the number of goroutines that
// the filter begins with.
func GeometryFor(processors, bufferBytes, listed int) Geometry {
	g := Geometry{Lanes: minLanes, Ring: minRing, Listed: 1 << 15}
	for g.Lanes < 2*processors && g.Lanes < maxLanes {
		g.Lanes *= 2
	}
	for g.Ring*2*g.Lanes <= bufferBytes && g.Ring < maxRing {
		g.Ring *= 2
	}
	for g.Listed < 8*listed && g.Listed < maxListed {
		g.Listed *= 2
	}
	return g
}

func powerOfTwo(n, least, most int) bool {
	return n >= least && n <= most && bits.OnesCount(uint(n)) == 1
}

func (g Geometry) check() error {
	for what, n := range map[string]int{"contexts": g.Contexts, "goroutines that allocate": g.Allocated} {
		if n != 0 && !powerOfTwo(n, csrc.TableWindow, maxListed) {
			return fmt.Errorf("invalid geometry: %d %s", n, what)
		}
	}
	if !powerOfTwo(g.Lanes, minLanes, maxLanes) || !powerOfTwo(g.Ring, minRing, maxRing) ||
		!powerOfTwo(g.Listed, csrc.TableWindow, maxListed) || g.Tables < 0 || g.Tables > csrc.MaxTables || g.Tables%8 != 0 {
		return fmt.Errorf("invalid geometry: %d lanes, rings of %d bytes, filter of %d goroutines, tables of %d bytes", g.Lanes, g.Ring, g.Listed, g.Tables)
	}
	return nil
}

// Places in the region, from its beginning.
func (g Geometry) listed() int { return alignUp(int(unsafe.Sizeof(csrc.Shared{})), 4096) }
func (g Geometry) lanes() int  { return alignUp(g.listed()+8*g.Listed, csrc.LaneSpan) }
func (g Geometry) rings() int  { return alignUp(g.lanes()+g.Lanes*csrc.LaneSpan, Alignment) }
func (g Geometry) stacks() int { return g.rings() + g.Lanes*g.Ring }

func (g Geometry) tables() int { return g.stacks() + g.Lanes*g.stackRing() }

// stackRing returns the size in bytes of each lane's ring of stacks. It is small because each stack is sent once.
func (g Geometry) stackRing() int { return max(g.Ring/8, minRing) }

func (g Geometry) contexts() int { return alignUp(g.tables()+g.Lanes*g.Tables, 64) }

// Size returns the number of bytes of the region.
func (g Geometry) Size() int {
	if g.Contexts == 0 && g.Allocated == 0 {
		return g.tables() + g.Lanes*g.Tables
	}
	return g.allocated() + g.Allocated*int(unsafe.Sizeof(csrc.Allocated{}))
}

// allocated returns the place of what goroutines allocate.
func (g Geometry) allocated() int {
	if g.Contexts == 0 {
		return g.contexts()
	}
	return g.carried() + csrc.CarriedEntries*int(unsafe.Sizeof(csrc.Carried{}))
}

// carried returns the place of what requests carry on, if there are contexts.
func (g Geometry) carried() int { return g.contexts() + g.Contexts*int(unsafe.Sizeof(csrc.Context{})) }

func alignUp(n, to int) int { return (n + to - 1) / to * to }

// Region is the memory that the target and the reader share, as it is mapped here. What the target writes there is not
// trusted.
type Region struct {
	Geometry
	mem    []byte
	shared *csrc.Shared
	listed []uint64
	lanes  []*csrc.Lane
	scopes []csrc.Context
	sums   []csrc.Allocated
	used   []atomic.Bool // the lanes that hits have taken, as far as Table knows
}

// NewRegion makes a region of memory that is all zero, aligned to 64 bytes, and stays mapped for as long as it is used.
func NewRegion(mem []byte, g Geometry) (*Region, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	if len(mem) < g.Size() {
		return nil, fmt.Errorf("shared memory has %d bytes, want %d", len(mem), g.Size())
	}
	r := &Region{Geometry: g, mem: mem, used: make([]atomic.Bool, g.Lanes)}
	r.shared = (*csrc.Shared)(unsafe.Pointer(&mem[0]))
	r.listed = unsafe.Slice((*uint64)(unsafe.Pointer(&mem[g.listed()])), g.Listed)
	if g.Contexts > 0 {
		r.scopes = unsafe.Slice((*csrc.Context)(unsafe.Pointer(&mem[g.contexts()])), g.Contexts)
	}
	if g.Allocated > 0 {
		r.sums = unsafe.Slice((*csrc.Allocated)(unsafe.Pointer(&mem[g.allocated()])), g.Allocated)
	}
	for i := range g.Lanes {
		r.lanes = append(r.lanes, (*csrc.Lane)(unsafe.Pointer(&mem[g.lanes()+i*csrc.LaneSpan])))
	}
	return r, nil
}

// Place tells the lanes where the target will have mapped the region. It comes before the probes are enabled.
func (r *Region) Place(addr uint64) error {
	if addr == 0 || addr%Alignment != 0 {
		return fmt.Errorf("shared memory at %#x, which is not a multiple of %#x", addr, Alignment)
	}
	for i, l := range r.lanes {
		l.Events.Addr, l.Events.Mask = addr+uint64(r.rings()+i*r.Ring), uint64(r.Ring-1)
		l.Stacks.Addr, l.Stacks.Mask = addr+uint64(r.stacks()+i*r.stackRing()), uint64(r.stackRing()-1)
		l.Tables = addr + uint64(r.tables()+i*r.Geometry.Tables)
	}
	return nil
}

// Enable lets the probes begin, or stop.
func (r *Region) Enable(on bool) {
	var v uint32
	if on {
		v = 1
	}
	atomic.StoreUint32(&r.shared.Control.Enabled, v)
}

// Sample changes which goroutines are sampled. At first all are.
func (r *Region) Sample(rule sampling.Rule) {
	atomic.StoreUint32(&r.shared.Control.Skip, uint32(rule))
}

// CloseLoans ends lending memory to the program.
func (r *Region) CloseLoans() { atomic.StoreUint64(&r.shared.Closing, 1) }

// SetArenas tells the probes where the heap is of a program that was starting. csrc.NoArenas says that this stays unknown.
func (r *Region) SetArenas(arenas uint64) { atomic.StoreUint64(&r.shared.Arenas, arenas) }

// AllowReads lets probes read memory by system calls, or forbids it.
func (r *Region) AllowReads(on bool) {
	r.shared.Control.Reads = 0
	if on {
		r.shared.Control.Reads = 1
	}
}

func (r *Region) enabled() bool { return atomic.LoadUint32(&r.shared.Control.Enabled) != 0 }

// Lost returns how many events were lost so far, modulo 2^32.
func (r *Region) Lost() uint32 {
	sum := r.missedInAll()
	for _, l := range r.lanes {
		sum += atomic.LoadUint32(&l.Lost)
	}
	return sum
}

func (r *Region) missedInAll() uint32 { return atomic.LoadUint32(&r.shared.Control.Lost) }

// Missed returns how many of these were hits of each probe that found no free lane: of which kind they were is not known.
func (r *Region) Missed() [csrc.MaxProbes]uint64 {
	var missed [csrc.MaxProbes]uint64
	for i := range missed {
		missed[i] = atomic.LoadUint64(&r.shared.Missed[i])
	}
	return missed
}

// Unlisted returns how many goroutines the probes found no room for in the filter.
func (r *Region) Unlisted() uint64 { return atomic.LoadUint64(&r.shared.Control.Unlisted) }

// NewEpoch makes the probes send all stacks again, with new identities. The reader alone calls it.
func (r *Region) NewEpoch() { r.shared.Control.Epoch++ }

// List adds goroutines to those that the filters include or exclude.
func (r *Region) List(goroutines []uint64) error {
	c := &r.shared.Control
	for i, g := range goroutines {
		if g >= csrc.SmallIDs && !r.listLarge(g) {
			return fmt.Errorf("the filter is full: %d of %d goroutines do not fit", len(goroutines)-i, len(goroutines))
		}
		c.List(g)
	}
	return nil
}

// listLarge adds a goroutine with a large ID. It is counted before it can be found.
func (r *Region) listLarge(goroutine uint64) bool {
	r.shared.Filter.Add(goroutine, 1)
	ok, added := setAdd(r.listed, goroutine)
	if !added {
		r.shared.Filter.Add(goroutine, -1)
	}
	return ok
}

// Unlist removes a goroutine from these.
func (r *Region) Unlist(goroutine uint64) {
	r.shared.Control.Unlist(goroutine)
	first, mask := setFirst(goroutine), uint64(len(r.listed)-1)
	for i := range uint64(csrc.TableWindow) {
		if atomic.CompareAndSwapUint64(&r.listed[(first+i)&mask], goroutine, 0) {
			r.shared.Filter.Add(goroutine, -1)
		}
	}
	mask = uint64(len(r.sums) - 1)
	for i := range uint64(min(csrc.TableWindow, len(r.sums))) {
		atomic.CompareAndSwapUint64(&r.sums[(first+i)&mask].Goid, goroutine, 0)
	}
	r.takeScope(goroutine, func(*csrc.Context) bool { return true })
}

// Disown removes the context that a goroutine has inherited, but not that of a request that it serves itself.
func (r *Region) Disown(goroutine uint64) {
	r.takeScope(goroutine, func(c *csrc.Context) bool { return atomic.LoadUint64(&c.About) == 0 })
}

// takeScope removes the context of the request to which a goroutine belongs, if that is to be removed.
func (r *Region) takeScope(goroutine uint64, remove func(*csrc.Context) bool) {
	if len(r.scopes) == 0 {
		return
	}
	key := goroutine<<3 | uint64(csrc.ContextScope)
	first, mask := setFirst(key), uint64(len(r.scopes)-1)
	for i := range uint64(csrc.TableWindow) {
		if c := &r.scopes[(first+i)&mask]; atomic.LoadUint64(&c.Key) == key && remove(c) {
			atomic.CompareAndSwapUint64(&c.Key, key, 0)
		}
	}
}

// ContextsFull returns how many contexts of spans the probes found no room for.
func (r *Region) ContextsFull() uint64 { return atomic.LoadUint64(&r.shared.ContextsFull) }

// setAdd adds a number to a table, which may have it already. set_find (native.h) may access the table at the same time.
func setAdd(table []uint64, key uint64) (ok, added bool) {
	first, mask := setFirst(key), uint64(len(table)-1)
	for i := range uint64(csrc.TableWindow) {
		if atomic.LoadUint64(&table[(first+i)&mask]) == key {
			return true, false
		}
	}
	for i := range uint64(csrc.TableWindow) {
		if atomic.CompareAndSwapUint64(&table[(first+i)&mask], 0, key) {
			return true, true
		}
	}
	return false, false
}

// setFirst returns the hash of a number, which modulo the table's size is its first position.
func setFirst(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 >> 32 }

// StacksLost returns how many stacks were not sent because the buffer was full. They are sent again with a later event.
func (r *Region) StacksLost() uint64 {
	var sum uint64
	for _, l := range r.lanes {
		sum += atomic.LoadUint64(&l.Counts[csrc.KindStack].NoRoom)
	}
	return sum
}

// Table returns what a table has counted in all lanes. The last values of a cell, kept of them, describe its key. The target
// writes it meanwhile, and may write anything.
func (r *Region) Table(t csrc.Table, kept int) probe.Cells {
	c := probe.NewCells(kept)
	cells, width := int(t.Mask)+1, 2+int(t.Values)
	for i, l := range r.lanes {
		if !r.used[i].Load() && atomic.LoadUint64(&l.Turns) == 0 {
			continue // no hit has used the lane: reading its tables would take memory
		}
		r.used[i].Store(true)
		at := r.tables() + i*r.Geometry.Tables + int(t.Offset)
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&r.mem[at])), 1+cells*width)
		c.Overflow += atomic.LoadUint64(&words[0])
		values := make([]uint64, t.Values)
		for cell := words[1:]; len(cell) > 0; cell = cell[width:] {
			counted := atomic.LoadUint64(&cell[1])
			if counted == 0 {
				continue
			}
			for v := range values {
				values[v] = atomic.LoadUint64(&cell[2+v])
			}
			c.Add(atomic.LoadUint64(&cell[0]), counted, values)
		}
	}
	return c
}

// Totals returns the sums of what all lanes count, and the hits that found no free lane.
func (r *Region) Totals() csrc.Totals {
	var sum csrc.Totals
	for _, n := range r.Missed() {
		sum.Hits += n
	}
	for _, l := range r.lanes {
		sum.Hits += atomic.LoadUint64(&l.Turns)
		sum.Created += atomic.LoadUint64(&l.Created)
		sum.Ended += atomic.LoadUint64(&l.Ended)
	}
	return sum
}

// Used returns the part of its ring of events that a lane uses, from 0 to 1: of the lane that uses most.
func (r *Region) Used() float64 {
	most := uint64(0)
	for _, l := range r.lanes {
		tail := atomic.LoadUint64(&l.EventsTail) // first, so that the difference is not negative
		most = max(most, min(atomic.LoadUint64(&l.Events.Head)-tail, uint64(r.Ring)))
	}
	return float64(most) / float64(r.Ring)
}

// Counts returns the number of events received and lost, indexed by kind. Hits that found no free lane are not among them.
func (r *Region) Counts() [event.KindLimit]csrc.Count {
	var sum [event.KindLimit]csrc.Count
	for _, l := range r.lanes {
		for k := range sum[:csrc.KindStack] {
			c := &l.Counts[k]
			sum[k].Produced += atomic.LoadUint64(&c.Produced)
			sum[k].NoRoom += atomic.LoadUint64(&c.NoRoom)
			sum[k].Unreadable += atomic.LoadUint64(&c.Unreadable)
		}
		// A thread may have exited in the middle of a hit: that event was not produced.
		if under := atomic.LoadUint64(&l.UnderWay); under != 0 && under>>8 == atomic.LoadUint64(&l.Events.Head)&(1<<56-1) {
			sum[uint8(under)].Produced--
		}
	}
	return sum
}
