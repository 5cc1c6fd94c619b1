package goproc

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// schedOffsets are where the numbers of the scheduler are. Lists of free g's changed their type in Go 1.25.
type schedOffsets struct {
	sched                    uint64 // address of runtime.sched
	size                     int    // of runtime.schedt
	goidgen, ngsys           int
	free                     []int // numbers of free g's; one, or two that are added
	procFree, ids            int   // in runtime.p; ids are the next ID to give out, and the end of those that it may
	timeToRun, timeToRunSize int   // none before Go 1.17
	pauses, pausesSize       int   // none before Go 1.22
}

func (p *Process) schedOffsets() (*schedOffsets, error) {
	address := p.main.bin.Globals().Sched
	if address == 0 {
		return nil, fmt.Errorf("process %d: %w: the address of runtime.sched could not be found", p.pid, ErrLayout)
	}
	r := fieldReader{layout: p.layout}
	o := &schedOffsets{
		sched: address + p.main.bias, size: r.size("runtime.schedt"), goidgen: r.need("runtime.schedt.goidgen"), ngsys: r.need("runtime.schedt.ngsys"),
		ids: r.need("runtime.p.goidcache"),
	}
	if end := r.need("runtime.p.goidcacheend"); r.err == nil && end != o.ids+8 {
		return nil, fmt.Errorf("process %d: %w: runtime.p.goidcacheend is not where it is expected", p.pid, ErrLayout)
	}
	if n := r.first("runtime.schedt.gFree.n"); n != none {
		o.free, o.procFree = []int{n}, r.need("runtime.p.gFree.n")
	} else {
		o.free = []int{r.need("runtime.schedt.gFree.stack.size"), r.need("runtime.schedt.gFree.noStack.size")}
		o.procFree = r.need("runtime.p.gFree.size")
	}
	o.timeToRun, o.timeToRunSize = histogramAt(p.layout, "runtime.schedt.timeToRun.counts")
	o.pauses, o.pausesSize = histogramAt(p.layout, "runtime.schedt.stwTotalTimeGC.counts")
	if r.err != nil {
		return nil, fmt.Errorf("process %d: %w: %w", p.pid, ErrLayout, r.err)
	}
	if err := checkWithin(o.size, append(o.free, o.goidgen, o.ngsys, o.timeToRun+o.timeToRunSize, o.pauses+o.pausesSize)...); err != nil {
		return nil, fmt.Errorf("process %d: %w: %w", p.pid, ErrLayout, err)
	}
	return o, nil
}

// histogramAt returns the offset and the size of the counts of a runtime.timeHistogram, or none and 0.
func histogramAt(l *layout.Layout, path string) (offset, size int) {
	f, ok := l.Field(path)
	if !ok {
		return none, 0
	}
	return int(f.Offset), int(f.Size)
}

// Scheduler reads the numbers of the scheduler. The process runs meanwhile, so that they are a few microseconds apart.
func (p *Process) Scheduler() (*event.Scheduler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sched == nil {
		o, err := p.schedOffsets()
		if err != nil {
			return nil, err
		}
		p.sched = o
	}
	o := p.sched
	s := &event.Scheduler{Time: time.Now()}
	ps, err := p.procAddrs()
	if err != nil {
		return nil, err
	}
	s.Procs = len(ps)
	ids, err := p.goroutineIDs(ps)
	if err != nil {
		return nil, err
	}
	free, err := p.words(ps, o.procFree)
	if err != nil {
		return nil, err
	}
	b := make([]byte, o.size)
	if err := p.mem.read(b, o.sched); err != nil {
		return nil, err
	}
	_, count, err := p.allgsHeader()
	if err != nil {
		return nil, err
	}
	number := func(offset int) int { return int(int32(binary.LittleEndian.Uint32(b[offset:]))) }
	s.System = number(o.ngsys)
	s.Goroutines = int(count) - s.System
	s.Created = binary.LittleEndian.Uint64(b[o.goidgen:])
	for i := range ps {
		s.Goroutines -= int(int32(free[i]))
		if next, end := ids[2*i], ids[2*i+1]; end > next && end-next <= goidBatch {
			s.Created -= min(s.Created, end-next)
		}
	}
	for _, offset := range o.free {
		s.Goroutines -= number(offset)
	}
	s.Goroutines = max(s.Goroutines, 1) // as the runtime does: the numbers may not fit together
	if o.timeToRun != none {
		s.TimeToRun = timeHistogram(b[o.timeToRun:][:o.timeToRunSize])
	}
	if o.pauses != none {
		s.GCPauses = timeHistogram(b[o.pauses:][:o.pausesSize])
	}
	return s, nil
}

// goroutineIDs returns, for each P, the next ID that it will give out, and the end of those that it may. Both words are 0 for a P that cannot be
// read.
func (p *Process) goroutineIDs(ps []uint64) ([]uint64, error) {
	b := make([]byte, 16*len(ps))
	spans := make([]span, len(ps))
	for i, addr := range ps {
		spans[i] = span{addr: addr + uint64(p.sched.ids), buf: b[16*i : 16*i+16]}
	}
	if err := p.mem.readSpans(spans); err != nil {
		return nil, err
	}
	for i := range spans {
		if !spans[i].ok {
			clear(spans[i].buf)
		}
	}
	return words(b), nil
}

// goidBatch is the number of IDs that a P takes at once (runtime/proc.go, newproc1).
const goidBatch = 16

// procAddrs returns the addresses of the Ps.
func (p *Process) procAddrs() ([]uint64, error) {
	if p.rt.allp == 0 {
		return nil, fmt.Errorf("process %d: the address of runtime.allp is unknown", p.pid)
	}
	var header [16]byte
	if err := p.mem.read(header[:], p.rt.allp); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(header[8:])
	if n == 0 || n > maxGOMAXPROCS {
		return nil, fmt.Errorf("process %d: %w: %d Ps", p.pid, ErrLayout, n)
	}
	ps := make([]byte, n*8)
	if err := p.mem.read(ps, binary.LittleEndian.Uint64(header[:])); err != nil {
		return nil, err
	}
	return words(ps), nil
}

// timeHistogram decodes the counts of a runtime.timeHistogram (runtime/histogram.go). Their number says how the runtime divides durations:
// since Go 1.20 into 160 buckets, before into 720.
func timeHistogram(counts []byte) []event.DurationCount {
	bucket := func(i int) (low, high uint64) { return coarseBucket(uint(i)) }
	if len(counts) != 8*coarseBuckets {
		bucket = func(i int) (low, high uint64) { return fineBucket(uint(i)) }
	}
	list := []event.DurationCount{}
	for i, n := range words(counts) {
		if n == 0 {
			continue
		}
		low, high := bucket(i)
		list = append(list, event.DurationCount{Low: duration(low), High: duration(high), Count: n})
	}
	return list
}

func duration(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

// Since Go 1.20, powers of two from 2^8 ns on are divided into 4 parts, and so is the range below 2^9 ns.
const (
	coarseSubBits = 2
	coarseMinBits = 9
	coarseBuckets = (48 - coarseMinBits + 1) << coarseSubBits
)

func coarseBucket(i uint) (low, high uint64) {
	super, sub := i>>coarseSubBits, uint64(i&(1<<coarseSubBits-1))
	if super == 0 {
		width := uint64(1) << (coarseMinBits - 1 - coarseSubBits)
		return sub * width, (sub + 1) * width
	}
	top := super + coarseMinBits - 2 // the highest bit of the durations
	width := uint64(1) << (top - coarseSubBits)
	return 1<<top + sub*width, 1<<top + (sub+1)*width
}

// Before Go 1.20, each power of two from 2^4 ns on is divided into 16 parts. The last bucket has what is longer, too.
const (
	fineSubBits = 4
	fineBuckets = 45 << fineSubBits
)

func fineBucket(i uint) (low, high uint64) {
	super, sub := i>>fineSubBits, uint64(i&(1<<fineSubBits-1))
	if super == 0 {
		return sub, sub + 1
	}
	width := uint64(1) << (super - 1)
	low = 1<<(super+fineSubBits-1) + sub*width
	if i == fineBuckets-1 {
		return low, math.MaxInt64
	}
	return low, low + width
}
