package goproc

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// A MemProfile is the memory profile that the runtime of a process keeps (runtime.MemProfile).
type MemProfile struct {
	Rate    int64 // the mean number of bytes between two samples, MemProfileRate
	Started int64 // the rate with which the program started

	// Cycle is the number of the garbage collection cycle at whose end the counts were right. Published is false if no cycle
	// has counts yet. Then the records have everything since the program started, as runtime.MemProfile does.
	Cycle     uint32
	Published bool

	Records []MemRecord

	Later     int // records that are of later cycles, because the program collected garbage too often to read all at once
	Moments   int // number of moments that unpublished counts are of: more than 1 if they changed too fast to be read at once
	Unsettled int // records that are missing, because they changed too fast
}

// A MemRecord has the sampled objects of one size that were allocated by one stack.
type MemRecord struct {
	Stack []event.StackFrame // the names of functions are those of the symbol table; without the runtime's functions at the leaf
	Size  int64              // bytes of an object

	Allocs, Frees         int64
	AllocBytes, FreeBytes int64
}

// MemProfile reads the memory profile. The error wraps ErrProfileOff if the program does not record one.
func (p *Process) MemProfile() (*MemProfile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.profileLayout()
	if err != nil {
		return nil, err
	}
	for name, addr := range map[string]uint64{"mbuckets": l.MemBuckets, "mProfCycle": l.MemCycle, "profMemActiveLock": l.MemLock, "MemProfileRate": l.MemRate} {
		if err := p.known(name, addr); err != nil {
			return nil, err
		}
	}
	prof := &MemProfile{Started: p.startedRate()}
	if prof.Rate, err = p.memRate(l); err != nil {
		return nil, err
	}
	buckets, err := p.buckets(l, l.MemBuckets, memBucket, l.memSize)
	if err != nil {
		return nil, err
	}
	if err := p.memRecords(l, buckets, prof); err != nil {
		return nil, err
	}
	again, err := p.memRate(l)
	if err != nil {
		return nil, err
	}
	if again != prof.Rate {
		prof.Started, prof.Rate = prof.Rate, again
	}
	return prof, nil
}

// MemProfileRate returns runtime.MemProfileRate, the mean number of bytes between two samples. The error wraps ErrProfileOff if the
// program does not record a memory profile. A program that has not set up its runtime may set another rate.
func (p *Process) MemProfileRate() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.profileLayout()
	if err != nil {
		return 0, err
	}
	if err := p.known("MemProfileRate", l.MemRate); err != nil {
		return 0, err
	}
	return p.memRate(l)
}

// memRate returns MemProfileRate, or an error with the reason why there is no memory profile.
func (p *Process) memRate(l *profileLayout) (int64, error) {
	word, err := p.mem.u64(l.MemRate)
	if rate := int64(word); err != nil || rate > 0 {
		return rate, err
	}
	if l.MemDisabled != 0 {
		var flag [1]byte
		if err := p.mem.read(flag[:], l.MemDisabled); err != nil {
			return 0, err
		}
		if flag[0] != 0 {
			return 0, fmt.Errorf("process %d: %w: the linker disabled the heap profile, because nothing in %s refers to runtime.MemProfile; "+
				"build it with an import of net/http/pprof", p.pid, ErrProfileOff, p.main.bin.Path())
		}
	}
	return 0, fmt.Errorf("process %d: %w: runtime.MemProfileRate is 0; set it at the start of main, or run the program with GODEBUG=memprofilerate=%d",
		p.pid, ErrProfileOff, defaultMemRate)
}

// defaultMemRate is the initial value of runtime.MemProfileRate.
const defaultMemRate = 512 << 10

// startedRate returns the rate with which the program started: from the environment or from the executable.
func (p *Process) startedRate() int64 {
	if rate, ok := p.environRate(); ok {
		return rate
	}
	rate, err := p.main.bin.Word(p.main.bin.Globals().Profiles.MemRate)
	if err != nil || rate == 0 { // code initializes it (Go 1.17 to 1.19)
		return defaultMemRate
	}
	return int64(rate)
}

// environRate returns the rate that the environment of the process sets.
func (p *Process) environRate() (int64, bool) {
	const limit = 2 << 20 // execve(2) permits no more than a quarter of the stack's limit, which is usually 8 MiB
	environ, err := Environ(p.pid, limit)
	if err != nil {
		return 0, false
	}
	for variable := range strings.SplitSeq(string(environ), "\x00") {
		settings, ok := strings.CutPrefix(variable, "GODEBUG=")
		if !ok {
			continue
		}
		for setting := range strings.SplitSeq(settings, ",") {
			if value, ok := strings.CutPrefix(setting, "memprofilerate="); ok {
				rate, err := strconv.ParseInt(value, 10, 64)
				return rate, err == nil
			}
		}
	}
	return 0, false
}

// memRecords reads the records of buckets.
func (p *Process) memRecords(l *profileLayout, buckets []bucket, prof *MemProfile) error {
	const attempts = 3
	for range attempts {
		published, err := p.publishedRecords(l, buckets, prof)
		if err != nil || published {
			return err
		}
		// No cycle is published. If one is now, its counts are incomplete here.
		if early, err := p.unpublishedRecords(p.newMemSettler(l), l, buckets, prof); err != nil || early {
			return err
		}
	}
	return p.profileErrorf("the memory profile changes too fast")
}

// publishedRecords reads the counts of the published cycle: those that are in active, and those that the runtime is going
// to add to active (mProf_Flush). ok is false if there are none.
func (p *Process) publishedRecords(l *profileLayout, buckets []bucket, prof *MemProfile) (ok bool, err error) {
	r := p.newPublishedReader(l, prof)
	err = r.each(buckets, r.use)
	prof.Unsettled = r.unsettled
	return prof.Published || len(buckets) == 0, err
}

// publishedReader reads the published counts of records. The records may be read in several parts.
//
// The runtime can publish the counts of the next cycle before that cycle begins (mProf_PostSweep, at the end of runtime.GC).
// They are no longer pending then. To notice, a record that had pending counts is read again with each later part.
type publishedReader struct {
	*settler
	p    *Process
	l    *profileLayout
	prof *MemProfile

	pendingIn uint32 // the cycle in which the record that is read again had pending counts
}

// newMemSettler returns a settler for records of the memory profile.
func (p *Process) newMemSettler(l *profileLayout) *settler {
	return p.newSettler(l.MemLock+uint64(l.key), l.MemCycle+uint64(l.cycle), l.memSize)
}

func (p *Process) newPublishedReader(l *profileLayout, prof *MemProfile) *publishedReader {
	prof.Records, prof.Later, prof.Moments, prof.Published = prof.Records[:0], 0, 0, false
	s := p.newMemSettler(l)
	s.same = func(a, b []byte, word uint64) bool {
		at := l.futureOf(l.cycleOf(word))
		return string(a[:l.countsSize]) == string(b[:l.countsSize]) && string(a[at:at+l.countsSize]) == string(b[at:at+l.countsSize])
	}
	return &publishedReader{settler: s, p: p, l: l, prof: prof}
}

// use adds a record to the profile.
func (r *publishedReader) use(b *bucket, record []byte, word uint64) error {
	l, prof := r.l, r.prof
	cycle := l.cycleOf(word)
	published := cycle
	if r.again != nil && cycle == r.pendingIn && !l.pending(r.again, cycle) {
		published = cycle + 1
	}
	if l.pending(record, cycle) && (r.rereads == 0 || cycle != r.pendingIn) {
		r.rereads, r.pendingIn = b.record, cycle
	}
	if len(prof.Records) == 0 {
		prof.Cycle = published
	} else if published != prof.Cycle {
		prof.Later++
	}
	at := l.futureOf(cycle)
	sum, err := r.p.memRecord(l, b, record[:l.countsSize], record[at:at+l.countsSize])
	prof.Published = prof.Published || sum.Allocs != 0 || sum.Frees != 0
	prof.Records = append(prof.Records, sum)
	return err
}

// unpublishedRecords reads the counts of all cycles. ok is false if one of them has been published meanwhile.
func (p *Process) unpublishedRecords(s *settler, l *profileLayout, buckets []bucket, prof *MemProfile) (ok bool, err error) {
	prof.Records = prof.Records[:0]
	ok = true
	err = s.each(buckets, func(b *bucket, record []byte, word uint64) error {
		counts := [][]byte{record[:l.countsSize]}
		for i := range futures {
			at := l.future + i*l.countsSize
			counts = append(counts, record[at:at+l.countsSize])
		}
		for _, published := range counts[:1] {
			ok = ok && string(published) == string(make([]byte, l.countsSize))
		}
		r, err := p.memRecord(l, b, counts...)
		prof.Records = append(prof.Records, r)
		return err
	})
	prof.Moments, prof.Unsettled = s.moments, s.unsettled
	return ok, err
}

// cycleOf returns the number of the cycle from the word that contains it.
func (l *profileLayout) cycleOf(word uint64) uint32 { return uint32(word) >> l.cycleShift }

// futureOf returns the offset in runtime.memRecord of the counts that are published in a cycle.
func (l *profileLayout) futureOf(cycle uint32) int {
	return l.future + int(cycle%futures)*l.countsSize
}

// pending reports whether a record has counts that are to be published in the next cycle.
func (l *profileLayout) pending(record []byte, cycle uint32) bool {
	at := l.futureOf(cycle + 1)
	return string(record[at:at+l.countsSize]) != string(make([]byte, l.countsSize))
}

// memRecord adds up counts of a bucket.
func (p *Process) memRecord(l *profileLayout, b *bucket, counts ...[]byte) (MemRecord, error) {
	sum := func(off int) (total uint64) {
		for _, c := range counts {
			total += binary.LittleEndian.Uint64(c[off:])
		}
		return total
	}
	allocs, frees := sum(l.allocs), sum(l.frees)
	const most = 1 << 62
	if frees > allocs || b.size > most || b.size > 0 && allocs > most/b.size {
		return MemRecord{}, p.profileErrorf("%d objects of %d bytes were allocated and %d freed", allocs, b.size, frees)
	}
	r := MemRecord{Stack: p.symbols.heapStack(b.stack, &l.rules), Size: int64(b.size), Allocs: int64(allocs), Frees: int64(frees)}
	r.AllocBytes, r.FreeBytes = r.Allocs*r.Size, r.Frees*r.Size
	if l.allocBytes != none && l.freeBytes != none {
		r.AllocBytes, r.FreeBytes = int64(sum(l.allocBytes)), int64(sum(l.freeBytes))
		if r.FreeBytes < 0 || r.FreeBytes > r.AllocBytes {
			return r, p.profileErrorf("%d bytes were allocated and %d freed", uint64(r.AllocBytes), uint64(r.FreeBytes))
		}
	}
	return r, nil
}
