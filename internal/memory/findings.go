package memory

import (
	"fmt"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
)

// The thresholds of findings.
const (
	notable     = 64 << 20 // sizes below are not worth a finding
	nearLimit   = 0.90     // share of a cgroup limit that is in use
	expensiveGC = 0.10     // share of the processor time that collections take
	manyStacks  = 0.25     // share of stacks in the memory of heap and stacks
)

// Findings returns what looks wrong, the most urgent first. Each has its evidence in numbers in Found.
func Findings(m *event.Memory) []checkup.Finding {
	var list []checkup.Finding
	for _, find := range []func(*event.Memory) *checkup.Finding{
		nearTheLimit, memoryLimit, heapGoal, collectorOff, notGo, idleHeap, gcCPU, stacks, fragmentation, swapped,
	} {
		if f := find(m); f != nil {
			f.Status = checkup.Warn
			list = append(list, *f)
		}
	}
	return list
}

func nearTheLimit(m *event.Memory) *checkup.Finding {
	limit := limitOf(m)
	if limit == nil || float64(limit.Current) < nearLimit*float64(limit.Max) {
		return nil
	}
	return &checkup.Finding{Name: "cgroup limit",
		Found:  fmt.Sprintf("the cgroup uses %s of %s (%s)", size(limit.Current), size(limit.Max), Percent(limit.Current, limit.Max)),
		Means:  "at the limit the kernel drops page cache, and then kills a process of the cgroup",
		Remedy: "see below what uses the memory; raise the limit or lower GOMEMLIMIT"}
}

func memoryLimit(m *event.Memory) *checkup.Finding {
	limit := limitOf(m)
	if limit == nil || m.GC.MemoryLimit == nil {
		return nil
	}
	f := &checkup.Finding{Name: "GOMEMLIMIT", Remedy: fmt.Sprintf("set GOMEMLIMIT to the limit minus the memory that is not Go's, at most %s", size(limit.Max/10*9))}
	switch {
	case Unlimited(&m.GC):
		f.Found = fmt.Sprintf("GOMEMLIMIT is not set, and the cgroup has a limit of %s", size(limit.Max))
		f.Means = "the garbage collector does not know the limit, and lets the heap grow to its goal"
		if !Endless(&m.Heap) {
			f.Means += ", now " + size(m.Heap.Goal)
		}
	case uint64(*m.GC.MemoryLimit) > limit.Max:
		f.Found = fmt.Sprintf("GOMEMLIMIT is %s, above the cgroup's limit of %s", size(uint64(*m.GC.MemoryLimit)), size(limit.Max))
		f.Means = "the kernel kills a process of the cgroup before GOMEMLIMIT has an effect"
	default:
		return nil
	}
	return f
}

// heapGoal reports a heap that exceeds the limit before it is collected.
func heapGoal(m *event.Memory) *checkup.Finding {
	limit := limitOf(m)
	if limit == nil || Endless(&m.Heap) {
		return nil
	}
	rest := m.Process.RSS - min(m.Process.RSS, m.Heap.Alloc)
	if m.Heap.Goal+rest <= limit.Max {
		return nil
	}
	return &checkup.Finding{Name: "heap goal",
		Found: fmt.Sprintf("heap goal %s + %s of RSS that is not allocated objects = %s, above the cgroup's limit of %s",
			size(m.Heap.Goal), size(rest), size(m.Heap.Goal+rest), size(limit.Max)),
		Means:  "the limit may be reached before the next garbage collection ends",
		Remedy: "lower GOGC, set GOMEMLIMIT, or raise the limit"}
}

func collectorOff(m *event.Memory) *checkup.Finding {
	if m.GC.Percent >= 0 || !Unlimited(&m.GC) {
		return nil
	}
	return &checkup.Finding{Name: "GOGC", Found: fmt.Sprintf("GOGC is off and GOMEMLIMIT is not set; %s are allocated", size(m.Heap.Alloc)),
		Means: "the heap is collected only by calls of runtime.GC", Remedy: "set GOMEMLIMIT, or GOGC to a percentage"}
}

func notGo(m *event.Memory) *checkup.Finding {
	p := m.Process.Parts
	if p == nil || Foreign(p) < notable || Foreign(p) < m.Process.RSS/2 {
		return nil
	}
	found := fmt.Sprintf("%s of %s RSS (%s) is not Go's: anonymous %s, C heap %s, files %s, shared %s", size(Foreign(p)), size(m.Process.RSS),
		Percent(Foreign(p), m.Process.RSS), size(p.Other), size(p.CHeap), size(p.Files), size(p.Shared))
	return &checkup.Finding{Name: "memory outside Go", Found: found,
		Means: "heap profiles and GOMEMLIMIT do not cover it", Remedy: "look for its owner: C code (cgo), mmap, shared memory; see the largest mappings"}
}

func idleHeap(m *event.Memory) *checkup.Finding {
	retained := m.Heap.Retained()
	if retained < notable || retained < m.Heap.Inuse {
		return nil
	}
	return &checkup.Finding{Name: "idle heap",
		Found:  fmt.Sprintf("%s of the heap are idle and not returned to the kernel; %s are in use", size(retained), size(m.Heap.Inuse)),
		Means:  "the heap was larger recently; the runtime returns the memory in the background",
		Remedy: "set GOMEMLIMIT to return it sooner, or call debug.FreeOSMemory"}
}

func gcCPU(m *event.Memory) *checkup.Finding {
	if m.GC.CPUFraction < expensiveGC {
		return nil
	}
	return &checkup.Finding{Name: "GC CPU",
		Found:  fmt.Sprintf("garbage collection took %.0f %% of the available processor time, in %s", 100*m.GC.CPUFraction, english.Count(m.GC.Cycles, "collection")),
		Means:  "the program allocates much for the size of its live heap, or GOMEMLIMIT leaves little room above it",
		Remedy: "raise GOGC or GOMEMLIMIT, or allocate less"}
}

func stacks(m *event.Memory) *checkup.Finding {
	inuse := m.Runtime.StackInuse
	if inuse < notable || float64(inuse) < manyStacks*float64(inuse+m.Heap.Inuse) {
		return nil
	}
	return &checkup.Finding{Name: "stacks", Found: fmt.Sprintf("goroutine stacks take %s, the heap in use %s", size(inuse), size(m.Heap.Inuse)),
		Means: "there are many goroutines, or deep stacks", Remedy: "loupe goroutines lists them by stack"}
}

func fragmentation(m *event.Memory) *checkup.Finding {
	if unused := m.Heap.Unused(); unused >= notable && unused > m.Heap.Inuse/2 {
		return &checkup.Finding{Name: "fragmentation",
			Found: fmt.Sprintf("objects take %s of %s in use; %s (%s) are free slots", size(m.Heap.Alloc), size(m.Heap.Inuse), size(unused), Percent(unused, m.Heap.Inuse)),
			Means: "few objects keep many spans in use; new objects of the same sizes use the free slots"}
	}
	return nil
}

func swapped(m *event.Memory) *checkup.Finding {
	if m.Process.Swap < notable {
		return nil
	}
	return &checkup.Finding{Name: "swap", Found: fmt.Sprintf("%s are in swap, %s resident", size(m.Process.Swap), size(m.Process.RSS)),
		Means: "a garbage collection reads the live heap back from swap", Remedy: "give the program more memory, or lower GOMEMLIMIT"}
}
