package goproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// fakeProfile is a memory profile in the memory of the test itself. A goroutine updates it as the runtime does.
type fakeProfile struct {
	p      *Process
	l      *profileLayout
	arena  []uint64 // head, cycle, lock, then buckets
	record []int    // index in the arena of the record of each bucket
}

const (
	fakeHead, fakeCycle, fakeLock, fakeFirst = 0, 1, 2, 8
	fakeDepth                                = 4  // addresses in a stack
	fakeSize                                 = 16 // bytes of an object
)

// newFakeProfile makes a profile of n buckets, with the layout of this test's own runtime.
func newFakeProfile(tb testing.TB, n int) *fakeProfile {
	tb.Helper()
	exe, err := openExe(os.Getpid())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { exe.Close() })
	main := newModule(exe, 0)
	f := &fakeProfile{p: &Process{pid: os.Getpid(), main: main, mem: memory{os.Getpid()}, layout: exe.Layout(), symbols: newSymbolizer(main)}}
	if f.l, err = f.p.profileLayout(); err != nil {
		tb.Fatal(err)
	}
	stride := (f.l.bucketSize+f.l.memSize)/8 + fakeDepth
	f.arena = make([]uint64, fakeFirst+n*stride)
	f.l.MemBuckets, f.l.MemCycle, f.l.MemLock = f.addr(fakeHead), f.addr(fakeCycle), f.addr(fakeLock)
	for i := range n {
		at := fakeFirst + i*stride
		f.set(at, f.l.allnext, f.arena[fakeHead])
		f.set(at, f.l.typ, memBucket)
		f.set(at, f.l.size, fakeSize)
		f.set(at, f.l.nstk, fakeDepth)
		for j := range fakeDepth {
			f.set(at, f.l.bucketSize+8*j, uint64(i+1))
		}
		f.arena[fakeHead] = f.addr(at)
		f.record = append(f.record, at+f.l.bucketSize/8+fakeDepth)
	}
	f.count(0)
	return f
}

func (f *fakeProfile) addr(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&f.arena[i]))) }

// set stores a word at an offset in bytes from an index.
func (f *fakeProfile) set(i, offset int, v uint64) { atomic.StoreUint64(&f.arena[i+offset/8], v) }

func (f *fakeProfile) get(i, offset int) uint64 { return atomic.LoadUint64(&f.arena[i+offset/8]) }

// run updates the profile until the context is done: in each cycle, every bucket gets the same number of allocations, and
// half of them are freed. As in mprof.go, they are added to the published counts of one bucket after the other, under the
// lock: those of every second cycle in the cycle before, as runtime.GC does at the end of the sweep (mProf_PostSweep).
func (f *fakeProfile) run(ctx context.Context, done chan<- struct{}, pause time.Duration) {
	defer close(done)
	for cycle := uint64(0); ctx.Err() == nil; cycle++ {
		f.count(cycle + 1)
		atomic.StoreUint64(&f.arena[fakeCycle], cycle<<f.l.cycleShift)
		f.publish(cycle)
		spin(pause)
		if cycle%2 == 0 {
			f.publish(cycle + 1)
			spin(pause)
		}
	}
}

func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

// future returns the offset of the counts of a cycle.
func (f *fakeProfile) future(cycle uint64) int {
	return f.l.future + int(cycle%futures)*f.l.countsSize
}

// count adds what happens in a cycle to the counts of the cycle.
func (f *fakeProfile) count(cycle uint64) {
	l, index := f.l, f.future(cycle)
	for _, r := range f.record {
		f.set(r, index+l.allocs, 2)
		f.set(r, index+l.frees, 1)
		if l.allocBytes != none {
			f.set(r, index+l.allocBytes, 2*fakeSize)
			f.set(r, index+l.freeBytes, fakeSize)
		}
	}
}

// publish adds the counts of a cycle to the published ones.
func (f *fakeProfile) publish(cycle uint64) {
	index := f.future(cycle)
	atomic.StoreUint64(&f.arena[fakeLock], 1)
	for _, r := range f.record {
		for off := 0; off < f.l.countsSize; off += 8 {
			f.set(r, off, f.get(r, off)+f.get(r, index+off))
		}
		for off := 0; off < f.l.countsSize; off += 8 {
			f.set(r, index+off, 0)
		}
	}
	atomic.StoreUint64(&f.arena[fakeLock], 0)
}

// read returns the published records.
func (f *fakeProfile) read() (*MemProfile, error) {
	buckets, err := f.p.buckets(f.l, f.l.MemBuckets, memBucket, f.l.memSize)
	if err != nil {
		return nil, err
	}
	prof := &MemProfile{}
	_, err = f.p.publishedRecords(f.l, buckets, prof)
	return prof, err
}

// TestSettle reads a profile that is updated all the time. In a profile of one moment, all buckets have the same counts.
func TestSettle(t *testing.T) {
	type profile struct {
		buckets int
		pause   time.Duration
	}
	for _, c := range testtarget.Some(t, []profile{{1, 0}, {2, 0}, {50, 0}, {50, 20 * time.Microsecond},
		{3000, 0}, {3000, 300 * time.Microsecond}, {3000, time.Millisecond}, {3000, 3 * time.Millisecond}}, 3) {
		t.Run(fmt.Sprintf("%d buckets %v", c.buckets, c.pause), func(t *testing.T) {
			f := newFakeProfile(t, c.buckets)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go f.run(ctx, done, c.pause)
			defer func() { cancel(); <-done }()
			whole, parts, unsettled := 0, 0, 0
			for begin := time.Now(); time.Since(begin) < time.Second || c.buckets <= 50 && whole == 0 && time.Since(begin) < time.Minute; {
				prof, err := f.read()
				if err != nil {
					t.Fatal(err)
				}
				checkFake(t, prof, c.buckets)
				unsettled += prof.Unsettled
				if prof.Later == 0 && prof.Unsettled == 0 {
					whole++
				} else {
					parts++
				}
			}
			t.Logf("%d of one cycle, %d of several, %d records unsettled", whole, parts, unsettled)
			if c.buckets <= 50 && whole == 0 {
				t.Error("no profile is of one cycle")
			}
		})
	}
}

// TestPublishedEarly reads one half of a profile before and the other after the runtime publishes the counts of the next
// cycle, or the next cycle begins.
func TestPublishedEarly(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(f *fakeProfile)
		later   int
	}{
		{"nothing", func(*fakeProfile) {}, 0},
		{"published", func(f *fakeProfile) { f.publish(1) }, 50},
		{"next cycle", func(f *fakeProfile) { f.arena[fakeCycle] = 1 << f.l.cycleShift }, 50},
	} {
		f := newFakeProfile(t, 100)
		f.count(1)
		buckets, err := f.p.buckets(f.l, f.l.MemBuckets, memBucket, f.l.memSize)
		if err != nil {
			t.Fatal(err)
		}
		prof := &MemProfile{}
		r := f.p.newPublishedReader(f.l, prof)
		for i, half := range [][]bucket{buckets[:50], buckets[50:]} {
			if i == 1 {
				c.between(f)
			}
			if err := r.each(half, r.use); err != nil {
				t.Fatal(err)
			}
		}
		checkFake(t, prof, 100)
		if prof.Later != c.later {
			t.Errorf("%s: %d records are later, want %d", c.name, prof.Later, c.later)
		}
	}
}

// TestMoments reads counts that are not yet published while they change. A profile that claims to be of one moment has the
// same counts in all records.
func TestMoments(t *testing.T) {
	f := newFakeProfile(t, 3000)
	buckets, err := f.p.buckets(f.l, f.l.MemBuckets, memBucket, f.l.memSize)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.record {
		f.set(r, f.future(0)+f.l.frees, 0)
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := uint64(1); !stop.Load(); n++ {
			atomic.StoreUint64(&f.arena[fakeLock], 1)
			for _, r := range f.record {
				f.set(r, f.future(0)+f.l.allocs, n)
			}
			atomic.StoreUint64(&f.arena[fakeLock], 0)
			spin(50 * time.Microsecond)
		}
	}()
	defer func() { stop.Store(true); <-done }()
	one, several := 0, 0
	for begin := time.Now(); time.Since(begin) < time.Second || one+several < 20; {
		prof := &MemProfile{}
		if ok, err := f.p.unpublishedRecords(f.p.newMemSettler(f.l), f.l, buckets, prof); err != nil || !ok {
			t.Fatal(ok, err)
		}
		counts := map[int64]bool{}
		for _, r := range prof.Records {
			counts[r.Allocs] = true
		}
		switch {
		case prof.Moments < 1 || len(counts) > prof.Moments:
			t.Fatalf("%d different counts in a profile of %d moments", len(counts), prof.Moments)
		case prof.Moments == 1:
			one++
		default:
			several++
		}
	}
	t.Logf("%d profiles of one moment, %d of several", one, several)
}

// TestTwoMoments has the records change in each read of all of them, and then once between the reads of the two halves: the
// profile has the counts of both moments and says so.
func TestTwoMoments(t *testing.T) {
	const n = 100
	f := newFakeProfile(t, n)
	set := func(allocs uint64) {
		for _, r := range f.record {
			f.set(r, f.future(0)+f.l.allocs, allocs)
		}
	}
	set(2)
	buckets, err := f.p.buckets(f.l, f.l.MemBuckets, memBucket, f.l.memSize)
	if err != nil {
		t.Fatal(err)
	}
	s := f.p.newMemSettler(f.l)
	reads, same := 1, 0
	s.same = func(a, b []byte, _ uint64) bool {
		if reads < settleReads { // of all: the first read is compared with none
			reads++
			return false
		}
		equal := string(a) == string(b)
		if equal {
			same++
		}
		if same == n/2 {
			set(3)
		}
		return equal
	}
	prof := &MemProfile{}
	if ok, err := f.p.unpublishedRecords(s, f.l, buckets, prof); err != nil || !ok {
		t.Fatal(ok, err)
	}
	counts := map[int64]int{}
	for _, r := range prof.Records {
		counts[r.Allocs]++
	}
	if prof.Moments != 2 || prof.Unsettled != 0 || len(counts) != 2 || counts[2] != n/2 || counts[3] != n/2 {
		t.Errorf("a profile of %d moments, %d unsettled, with the counts %v", prof.Moments, prof.Unsettled, counts)
	}
}

// checkFake checks a profile: each record is of a moment between two cycles, and those of the same cycle are equal.
func checkFake(t *testing.T, prof *MemProfile, buckets int) {
	t.Helper()
	if len(prof.Records)+prof.Unsettled != buckets {
		t.Errorf("%d records and %d unsettled of %d", len(prof.Records), prof.Unsettled, buckets)
	}
	counts := map[int64]bool{}
	for _, r := range prof.Records {
		if r.Allocs != 2*r.Frees || r.AllocBytes != fakeSize*r.Allocs {
			t.Fatalf("torn record %+v", r)
		}
		counts[r.Allocs] = true
	}
	if prof.Later == 0 && len(counts) > 1 {
		t.Errorf("%d different counts in a profile of one cycle", len(counts))
	}
}

// TestNaiveReadTears reads a profile once, as settle does not. It shows that the updates of TestSettle tear such a read.
func TestNaiveReadTears(t *testing.T) {
	f := newFakeProfile(t, 50)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go f.run(ctx, done, 0)
	defer func() { cancel(); <-done }()
	buckets, err := f.p.buckets(f.l, f.l.MemBuckets, memBucket, f.l.memSize)
	if err != nil {
		t.Fatal(err)
	}
	s := f.p.newMemSettler(f.l)
	r := s.newRecords(buckets)
	for begin := time.Now(); time.Since(begin) < time.Minute; {
		if err := s.read(r, r.now); err != nil {
			t.Fatal(err)
		}
		counts := map[uint64]bool{}
		for i := range buckets {
			b := r.record(r.now, i)
			counts[binary.LittleEndian.Uint64(b[f.l.allocs:])+binary.LittleEndian.Uint64(b[f.l.futureOf(f.l.cycleOf(r.now.cycle))+f.l.allocs:])] = true
		}
		if len(counts) > 1 {
			return
		}
	}
	t.Error("no read is torn: the test shows nothing")
}

// TestLockHeld reads a profile whose lock is never released, as that of a process that is stopped may be.
func TestLockHeld(t *testing.T) {
	f := newFakeProfile(t, 10)
	f.arena[fakeLock] = 1
	begin := time.Now()
	_, err := f.read()
	if err == nil || time.Since(begin) > settleTime+time.Minute {
		t.Errorf("error %v after %v", err, time.Since(begin))
	}
}

// TestHostileBuckets reads lists of buckets that no runtime makes. Each ends in an error, within a time that also a busy machine keeps.
func TestHostileBuckets(t *testing.T) {
	for name, damage := range map[string]func(f *fakeProfile, at int){
		"circle":       func(f *fakeProfile, at int) { f.set(at, f.l.allnext, f.arena[fakeHead]) },
		"self":         func(f *fakeProfile, at int) { f.set(at, f.l.allnext, f.addr(at)) },
		"wild pointer": func(f *fakeProfile, at int) { f.set(at, f.l.allnext, 0xdeadbeef000) },
		"high pointer": func(f *fakeProfile, at int) { f.set(at, f.l.allnext, ^uint64(0)-7) },
		"into a stack": func(f *fakeProfile, at int) { f.set(at, f.l.allnext, f.addr(at)+8) },
		"depth":        func(f *fakeProfile, at int) { f.set(at, f.l.nstk, 1<<40) },
		"depth max":    func(f *fakeProfile, at int) { f.set(at, f.l.nstk, ^uint64(0)) },
		"type":         func(f *fakeProfile, at int) { f.set(at, f.l.typ, blockBucket) },
		"head":         func(f *fakeProfile, at int) { f.arena[fakeHead] = 12345 },
		"frees":        func(f *fakeProfile, at int) { f.set(at, f.l.bucketSize+8*fakeDepth+f.l.frees, 100) },
		"size": func(f *fakeProfile, at int) {
			f.set(at, f.l.size, 1<<63)
			f.set(at, f.l.bucketSize+8*fakeDepth+f.l.allocs, 2)
		},
		"allocs": func(f *fakeProfile, at int) { f.set(at, f.l.bucketSize+8*fakeDepth+f.l.allocs, 1<<62) },
	} {
		f := newFakeProfile(t, 1000)
		if _, err := f.read(); err != nil {
			t.Fatal(err)
		}
		damage(f, f.record[500]-fakeDepth-f.l.bucketSize/8)
		begin := time.Now()
		_, err := f.read()
		if !errors.Is(err, ErrLayout) || time.Since(begin) > 20*time.Second {
			t.Errorf("%s: error %v after %v", name, err, time.Since(begin))
		}
	}
}

// BenchmarkMemProfile reads a profile of 10,000 buckets.
func BenchmarkMemProfile(b *testing.B) {
	f := newFakeProfile(b, 10000)
	for b.Loop() {
		if _, err := f.read(); err != nil {
			b.Fatal(err)
		}
	}
}
