package gobin

import (
	"bytes"
	"hash/maphash"
	"runtime"
	"sync"
	"unsafe"
	"weak"
)

// shared are the pclntabs in memory, by hash. They are most of what is kept of an executable, and many processes may execute the same one,
// from files that differ.
var shared = struct {
	sync.Mutex
	seed   maphash.Seed
	tables map[uint64]weak.Pointer[byte] // to the first byte
	sizes  map[uint64]int
}{seed: maphash.MakeSeed(), tables: map[uint64]weak.Pointer[byte]{}, sizes: map[uint64]int{}}

// share returns data, or a slice with the same contents that is in use already. Neither may be changed from then on. The contents are forgotten
// when nothing refers to the slice.
func share(data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	hash := maphash.Bytes(shared.seed, data)
	shared.Lock()
	defer shared.Unlock()
	if first := shared.tables[hash].Value(); first != nil {
		if known := unsafe.Slice(first, shared.sizes[hash]); bytes.Equal(known, data) {
			return known
		}
		return data // another table has the same hash
	}
	shared.tables[hash], shared.sizes[hash] = weak.Make(&data[0]), len(data)
	runtime.AddCleanup(&data[0], forget, hash)
	return data
}

// forget removes what has no value any more.
func forget(hash uint64) {
	shared.Lock()
	defer shared.Unlock()
	if shared.tables[hash].Value() == nil {
		delete(shared.tables, hash)
		delete(shared.sizes, hash)
	}
}
