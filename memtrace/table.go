package memtrace

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// goroutines says which cell each goroutine counts into.
var goroutines table

// table maps a g to a cell. The hook reads it without a lock, and only the entry of its own goroutine. An entry is set and
// removed by that goroutine; so it never outlives it, although the runtime uses a g again.
//
// A g has a place in the eight slots of two neighboring buckets. If these are full, the table grows. Earlier versions are kept,
// because a hook on another thread may still be reading them: all together they are as large as the last.
type table struct {
	mu   sync.RWMutex // read: a slot is set; write: the table grows
	kept [][]uint64
}

// current is the version in use, which the hook reads: *version or 0.
var current uintptr

// version is a header of versionHeader bytes, aligned to its size, with buckets behind it.
type version struct {
	mask uint64 // the number of buckets, less one
}

type slot struct {
	g    uintptr
	cell uintptr // *cell, which is kept alive by the goroutine
}

type bucket [bucketSlots]slot

const (
	bucketSlots   = 4
	versionHeader = 2 * unsafe.Sizeof(bucket{})
	firstBuckets  = 256
	hashFactor    = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio
	hashShift     = 32
)

func (v *version) bucket(i uint64) *bucket {
	return (*bucket)(unsafe.Add(unsafe.Pointer(v), versionHeader+uintptr(i)*unsafe.Sizeof(bucket{})))
}

// pair returns the two buckets of a g.
func (v *version) pair(g uintptr) [2]*bucket {
	i := uint64(g) * hashFactor >> hashShift & v.mask
	return [2]*bucket{v.bucket(i), v.bucket(i ^ 1)}
}

// find returns the slot of a g.
func (v *version) find(g uintptr) *slot {
	for _, b := range v.pair(g) {
		for i := range b {
			if atomic.LoadUintptr(&b[i].g) == g {
				return &b[i]
			}
		}
	}
	return nil
}

// take takes a free slot for a g.
func (v *version) take(g uintptr) *slot {
	for _, b := range v.pair(g) {
		for i := range b {
			if atomic.LoadUintptr(&b[i].g) == 0 && atomic.CompareAndSwapUintptr(&b[i].g, 0, g) {
				return &b[i]
			}
		}
	}
	return nil
}

func newestVersion() *version {
	p := atomic.LoadUintptr(&current)
	return *(**version)(unsafe.Pointer(&p))
}

// swap sets the cell of the calling goroutine, whose g is given, or removes it if c is nil. It returns the previous one.
func (t *table) swap(g uintptr, c *cell) *cell {
	for {
		t.mu.RLock()
		v := newestVersion()
		old, ok := v.swap(g, c)
		t.mu.RUnlock()
		if ok {
			return old
		}
		t.growFrom(v)
	}
}

// cell returns the cell of the calling goroutine, whose g is given. Like the hook it needs no lock.
func (t *table) cell(g uintptr) *cell {
	if s := newestVersion().find(g); s != nil {
		return *(**cell)(unsafe.Pointer(&s.cell))
	}
	return nil
}

func (v *version) swap(g uintptr, c *cell) (old *cell, ok bool) {
	s := v.find(g)
	switch {
	case s == nil && c == nil:
		return nil, true
	case s == nil:
		if s = v.take(g); s == nil {
			return nil, false
		}
		atomic.StoreUintptr(&s.cell, uintptr(unsafe.Pointer(c)))
		return nil, true
	}
	old = *(**cell)(unsafe.Pointer(&s.cell))
	atomic.StoreUintptr(&s.cell, uintptr(unsafe.Pointer(c)))
	if c == nil {
		atomic.StoreUintptr(&s.g, 0)
	}
	return old, true
}

// growFrom makes a version of twice the size of old, unless there is a newer one already: many goroutines may find old full at
// the same time.
func (t *table) growFrom(old *version) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if newestVersion() != old {
		return
	}
	for buckets := 2 * (old.mask + 1); ; buckets *= 2 {
		v := t.allocate(buckets)
		if v.copy(old) {
			atomic.StoreUintptr(&current, uintptr(unsafe.Pointer(v)))
			return
		}
		t.kept = t.kept[:len(t.kept)-1]
	}
}

// copy copies the slots of another version.
func (v *version) copy(old *version) bool {
	for i := range old.mask + 1 {
		for _, s := range old.bucket(i) {
			if s.g == 0 {
				continue
			}
			to := v.take(s.g)
			if to == nil {
				return false
			}
			to.cell = s.cell
		}
	}
	return true
}

// allocate returns an empty version with a number of buckets, a power of two.
func (t *table) allocate(buckets uint64) *version {
	bytes := versionHeader + uintptr(buckets)*unsafe.Sizeof(bucket{}) + versionHeader
	memory := make([]uint64, bytes/8)
	t.kept = append(t.kept, memory)
	at := unsafe.Pointer(&memory[0])
	if past := uintptr(at) % versionHeader; past != 0 {
		at = unsafe.Add(at, versionHeader-past)
	}
	v := (*version)(at)
	v.mask = buckets - 1
	return v
}
