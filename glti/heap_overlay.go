//go:build loupe_glti

package glti

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// patchedHeap are the heap profiles of the runtime for agents. Each has a rate and samples of its own.
type patchedHeap struct {
	mu   sync.Mutex
	used [maxAgents]bool
}

// heapSamples is an open heap profile.
type heapSamples struct {
	of     *patchedHeap
	client int
}

// heapRecord is runtime.gltiHeapRecord.
type heapRecord struct {
	size          uintptr
	allocs, frees int64
	g             uintptr
	goid          uint64
	several       bool
	n             int
	stack         [40]uintptr
}

func (h *patchedHeap) open(rate int) (openProfile, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for client, used := range h.used {
		if !used {
			h.used[client] = true
			rt_heapRate(client, rate)
			return &heapSamples{h, client}, nil
		}
	}
	return nil, errors.New("glti: the maximum of 8 heap profiles is open")
}

func (s *heapSamples) close() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	rt_heapRate(s.client, 0)
	s.of.used[s.client] = false
}

// heapKey is what records have in common that are added up: the runtime has one for each set of agents.
type heapKey struct {
	size  uintptr
	stack [32]uintptr
}

func (s *heapSamples) snapshot() (snapshot, error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	var list []MemProfileRecord
	index := map[heapKey]int{}
	rec := new(heapRecord)
	for at := rt_heapRead(s.client, 0, unsafe.Pointer(rec)); at != 0; at = rt_heapRead(s.client, at, unsafe.Pointer(rec)) {
		key := heapKey{size: rec.size}
		copy(key.stack[:], withoutAllocator(rec.stack[:rec.n]))
		i, ok := index[key]
		if !ok {
			i = len(list)
			index[key] = i
			list = append(list, MemProfileRecord{MemProfileRecord: runtime.MemProfileRecord{Stack0: key.stack}, GP: G{rec.g, rec.goid}})
		}
		r := &list[i]
		r.AllocObjects += rec.allocs
		r.AllocBytes += rec.allocs * int64(rec.size)
		r.FreeObjects += rec.frees
		r.FreeBytes += rec.frees * int64(rec.size)
		if rec.several || r.GP != (G{rec.g, rec.goid}) {
			r.GP = nil
		}
	}
	return snapshot{memory: list}, nil
}

// withoutAllocator returns a stack without the functions that allocate and sample, as the runtime's profile has it.
func withoutAllocator(stack []uintptr) []uintptr {
	for len(stack) > 1 {
		f := runtime.FuncForPC(stack[0] - 1)
		if f == nil || !isAllocator(f.Name()) {
			break
		}
		stack = stack[1:]
	}
	return stack
}

func isAllocator(name string) bool {
	for _, prefix := range []string{"runtime.glti", "runtime.mallocgc", "runtime.postMallocgc"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
