package memory

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
)

const mib = 1 << 20

// healthy returns a reading in which nothing looks wrong.
func healthy() *event.Memory {
	m := &event.Memory{Time: time.Unix(100, 0)}
	m.Heap = event.HeapMemory{Alloc: 300 * mib, Live: 200 * mib, Goal: 400 * mib, Inuse: 320 * mib, Idle: 50 * mib, Released: 40 * mib, Sys: 370 * mib,
		TotalAlloc: 1000 * mib, Mallocs: 1000, Frees: 100, Objects: 900}
	m.Runtime.StackInuse = 10 * mib
	limit := int64(900 * mib)
	m.GC = event.GCMemory{Cycles: 10, CPUFraction: 0.01, Percent: 100, MemoryLimit: &limit}
	m.Process = event.ProcessMemory{RSS: 400 * mib, Anon: 390 * mib, File: 10 * mib,
		CGroup: &event.CGroupMemory{Path: "/a", Current: 420 * mib, Limit: &event.CGroupLimit{Path: "/a", Max: 1024 * mib, Current: 420 * mib}},
		Parts:  &event.MemoryParts{Arenas: 335 * mib, Metadata: 15 * mib, Executable: 40 * mib, Other: 10 * mib}}
	return m
}

func TestVerdict(t *testing.T) {
	m := healthy()
	if got, want := Verdict(m), "RSS 400 MiB of a limit of 1.0 GiB (39 %); the Go heap explains 335 MiB (live 200 MiB, goal 400 MiB)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m.Process.CGroup, m.Heap.Goal = nil, math.MaxUint64
	m.Process.Parts.Other, m.Process.Parts.Arenas = 300*mib, 45*mib
	if got, want := Verdict(m), "RSS 400 MiB; the Go heap explains 45.0 MiB (live 200 MiB, no goal); 300 MiB is not Go's"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m.Process.Parts = nil
	if got, want := Verdict(m), "RSS 400 MiB; the Go heap holds 340 MiB (live 200 MiB, no goal)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFindings(t *testing.T) {
	none := int64(math.MaxInt64)
	for name, test := range map[string]struct {
		spoil func(m *event.Memory)
		found string // in the evidence
	}{
		"cgroup limit":      {func(m *event.Memory) { m.Process.CGroup.Limit.Current = 1000 * mib }, "1000 MiB of 1.0 GiB (98 %)"},
		"GOMEMLIMIT":        {func(m *event.Memory) { m.GC.MemoryLimit = &none }, "not set, and the cgroup has a limit of 1.0 GiB"},
		"heap goal":         {func(m *event.Memory) { m.Heap.Goal = 1000 * mib }, "1000 MiB + 100 MiB"},
		"GOGC":              {func(m *event.Memory) { m.GC.Percent = -1; m.GC.MemoryLimit = nil }, "300 MiB are allocated"},
		"memory outside Go": {func(m *event.Memory) { m.Process.Parts.CHeap = 250 * mib }, "260 MiB of 400 MiB RSS (65 %)"},
		"idle heap":         {func(m *event.Memory) { m.Heap.Idle = 500 * mib }, "460 MiB of the heap are idle"},
		"GC CPU":            {func(m *event.Memory) { m.GC.CPUFraction = 0.234 }, "23 %"},
		"stacks":            {func(m *event.Memory) { m.Runtime.StackInuse = 200 * mib }, "stacks take 200 MiB"},
		"fragmentation":     {func(m *event.Memory) { m.Heap.Alloc = 100 * mib }, "220 MiB (69 %) are free slots"},
		"swap":              {func(m *event.Memory) { m.Process.Swap = 100 * mib }, "100 MiB are in swap"},
	} {
		m := healthy()
		if list := Findings(m); len(list) != 0 {
			t.Fatalf("findings in a healthy program: %+v", list)
		}
		test.spoil(m)
		list := Findings(m)
		if len(list) != 1 || list[0].Name != name || !strings.Contains(list[0].Found, test.found) || list[0].Means == "" || list[0].Status != checkup.Warn {
			t.Errorf("%s: %+v", name, list)
		}
	}
	m := healthy()
	above := int64(2000 * mib)
	m.GC.MemoryLimit = &above
	if list := Findings(m); len(list) != 1 || !strings.Contains(list[0].Found, "above the cgroup's limit") {
		t.Errorf("%+v", list)
	}
}

func TestRates(t *testing.T) {
	a, b := healthy(), healthy()
	b.Time = a.Time.Add(2 * time.Second)
	b.Heap.TotalAlloc += 10 * mib
	b.Heap.Mallocs += 100
	b.GC.Cycles += 4
	a.GC.CPU = &event.GCCPUSeconds{GC: time.Second, IdleMark: time.Second / 2, Total: 10 * time.Second}
	b.GC.CPU = &event.GCCPUSeconds{GC: 2 * time.Second, IdleMark: time.Second, Total: 14 * time.Second}
	r, ok := RatesBetween(a, b)
	if want := (Rates{Seconds: 2, AllocBytes: 5 * mib, Allocs: 50, Cycles: 2, GCShare: 0.125}); !ok || r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if r, ok := RatesBetween(b, a); ok {
		t.Errorf("rates backwards: %+v", r)
	}
	if r, ok := RatesBetween(nil, a); ok {
		t.Errorf("rates since nothing: %+v", r)
	}
	b.GC.CPU, b.Heap.TotalAlloc = nil, 0
	if r, ok := RatesBetween(a, b); !ok || r.GCShare >= 0 || r.AllocBytes != 0 {
		t.Errorf("%+v", r)
	}
}
