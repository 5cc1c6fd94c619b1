package memory

import (
	"fmt"
	"math"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
)

// Verdict returns one sentence: the resident memory, the limit if there is one, and how much of it the Go heap explains. Without the
// parts of the resident memory it says how much the Go heap holds.
func Verdict(m *event.Memory) string {
	text := "RSS " + size(m.Process.RSS)
	if limit := limitOf(m); limit != nil {
		text += fmt.Sprintf(" of a limit of %s (%s)", size(limit.Max), Percent(m.Process.RSS, limit.Max))
	}
	parts := m.Process.Parts
	if parts == nil {
		return text + fmt.Sprintf("; the Go heap holds %s (live %s, %s)", size(HeapHeld(m)), size(m.Heap.Live), goalText(m))
	}
	text += fmt.Sprintf("; the Go heap explains %s (live %s, %s)", size(parts.Arenas), size(m.Heap.Live), goalText(m))
	if Foreign(parts) > parts.Arenas {
		text += fmt.Sprintf("; %s is not Go's", size(Foreign(parts)))
	}
	return text
}

// HeapHeld returns the memory in the heap's address range that the runtime has not returned to the kernel. Pages of it that were
// never used, or are in swap, are not resident.
func HeapHeld(m *event.Memory) uint64 {
	n := m.Heap.Inuse + m.Heap.Retained() + m.Runtime.StackInuse
	if m.Runtime.WorkBufs != nil {
		n += *m.Runtime.WorkBufs
	}
	return n
}

// Foreign returns the resident memory that neither the Go runtime nor the executable explains.
func Foreign(p *event.MemoryParts) uint64 { return p.Files + p.Shared + p.CHeap + p.Other }

// Unlimited reports whether GOMEMLIMIT is not set.
func Unlimited(gc *event.GCMemory) bool {
	return gc.MemoryLimit == nil || *gc.MemoryLimit == math.MaxInt64
}

// Endless reports whether the heap has no goal, because the collector is off.
func Endless(h *event.HeapMemory) bool { return h.Goal > math.MaxInt64 }

// Percent writes the share that part is of whole, as in "95 %".
func Percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

func goalText(m *event.Memory) string {
	if Endless(&m.Heap) {
		return "no goal"
	}
	return "goal " + size(m.Heap.Goal)
}

// limitOf returns the limit of the cgroup, or nil without a limit.
func limitOf(m *event.Memory) *event.CGroupLimit {
	if m.Process.CGroup == nil {
		return nil
	}
	return m.Process.CGroup.Limit
}

func size(n uint64) string { return english.Size(int64(min(n, math.MaxInt64))) }
