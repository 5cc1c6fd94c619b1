package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
)

// crowded returns a reading with long numbers, hostile names and something wrong everywhere.
func crowded() *event.Memory {
	now := time.Date(2026, 3, 1, 14, 3, 5, 0, time.UTC)
	limit, bufs := int64(math.MaxInt64), uint64(1<<20)
	m := &event.Memory{Time: now}
	m.Heap = event.HeapMemory{Alloc: 1 << 39, Objects: 12_345_678_901, Live: 1 << 38, Goal: 1 << 40, Inuse: 3 << 39, Idle: 4 << 39, Released: 1 << 20,
		Sys: 7 << 39, TotalAlloc: 1 << 50, Mallocs: 123_456_789_012, Frees: 111_111_110_111, LargeAllocs: 10, LargeFrees: 1}
	m.Runtime = event.RuntimeMemory{StackInuse: 1 << 41, StackSys: 1<<41 + 1<<20, MSpanInuse: 1, MSpanSys: 1 << 30, GCSys: 1 << 30, Sys: 1 << 43, WorkBufs: &bufs}
	m.GC = event.GCMemory{Cycles: 4_000_000, Forced: 3_000_000, Running: true, Last: now.Add(-time.Hour), PauseTotal: time.Hour, CPUFraction: 0.5,
		CPU: &event.GCCPUSeconds{Assist: 1e15, Dedicated: 1e15, Total: 1e16}, Percent: 100, MemoryLimit: &limit,
		Pauses: []event.GCPause{{End: now, Duration: time.Millisecond}, {End: now, Duration: time.Second}}}
	for size := uint32(8); size < 32768; size *= 2 {
		m.BySize = append(m.BySize, event.SizeClass{Size: size, Mallocs: 1 << 20, Frees: 1 << 10})
	}
	m.Process = event.ProcessMemory{RSS: 1 << 42, Anon: 1 << 41, Swap: 1 << 41, Peak: 1 << 42,
		CGroup: &event.CGroupMemory{Path: "/sys/fs/cgroup/kubepods.slice/" + strings.Repeat("x", 60), Current: 1 << 42,
			Limit: &event.CGroupLimit{Path: "/sys/fs/cgroup/kubepods.slice", Max: 1 << 42, Current: 1<<42 - 1}},
		Parts: &event.MemoryParts{Arenas: 1 << 40, Metadata: 1 << 30, MetadataBound: true, Executable: 1 << 20, CHeap: 1 << 41, Other: 1 << 40,
			Largest: []event.MemoryMapping{{Start: 0x7f0000000000, End: 0x7f8000000000, Name: "/tmp/a\x1b[31m\nb", RSS: 1 << 41}, {Start: 1, End: 2, RSS: 1 << 40}}}}
	m.Reading = event.MemoryReading{Attempts: 20, Torn: true, Allocated: 5 << 20, Freed: 1 << 20}
	return m
}

// TestMemoryText checks that a page contains what it must, and fits into 80 and 120 columns but for paths.
func TestMemoryText(t *testing.T) {
	for _, width := range []int{0, 80, 120} {
		var b strings.Builder
		if err := (Memory{Memory: crowded(), Sizes: 3}).Text(&b, term.Style{}, width); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if strings.Contains(text, "\x1b") {
			t.Error("a name of the target reaches the terminal")
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); width > 0 && n > width && !strings.Contains(line, "/sys/fs/cgroup") && !strings.Contains(line, "-7f8000000000") {
				t.Errorf("a line of %d columns for %d: %s", n, width, line)
			}
		}
		if width != 0 {
			continue
		}
		for _, want := range []string{
			"RSS 4.0 TiB of a limit of 4.0 TiB (100 %); the Go heap explains 1.0 TiB (live 256 GiB, goal 1.0 TiB); 3.0 TiB is not Go's\n",
			"\nGOMEMLIMIT: GOMEMLIMIT is not set, and the cgroup has a limit of 4.0 TiB\n",
			"\n  C heap                    2.0 TiB  50 %\n",
			"\n  other memory              1.0 TiB  25 %: C code, its threads' stacks, mmap\n",
			"\n  allocated objects         512 GiB  12,345,678,901 objects\n",
			"last one 1h ago; one is in progress\n", "in total; last 1ms, longest of the last 2 1s\n", "\n  GOMEMLIMIT                not set\n",
			"10 more size classes (--sizes 0 shows all)\n", "The program allocated 5.0 MiB and freed 1.0 MiB during the reading",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
}

// TestMemoryAbsent checks that numbers that a release does not have are not shown as 0.
func TestMemoryAbsent(t *testing.T) {
	m := crowded()
	m.GC.CPU, m.GC.MemoryLimit, m.Process.CGroup, m.Process.Parts, m.Heap.Goal, m.GC.Percent = nil, nil, nil, nil, math.MaxUint64, -1
	var text, doc strings.Builder
	if err := (Memory{Memory: m}).Text(&text, term.Style{}, 0); err != nil {
		t.Fatal(err)
	}
	if err := (Memory{Memory: m}).JSON(&doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"this Go release has none", "the collector is off", "\n  GOGC                          off\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	for _, name := range []string{"gomemlimit", "cpuSeconds", "cgroup", "parts", "goal", "rates"} {
		if strings.Contains(doc.String(), `"`+name+`"`) {
			t.Errorf("%s in %s", name, doc.String())
		}
	}
}

func TestMemoryLines(t *testing.T) {
	m := crowded()
	later := *m
	later.Time = m.Time.Add(2 * time.Second)
	later.Heap.TotalAlloc += 10 << 30
	later.Heap.Mallocs += 1_000_000
	var b strings.Builder
	lines := NewMemoryLines(&b, term.Style{})
	for _, m := range []*event.Memory{m, &later} {
		if err := lines.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	want := `TIME           RSS      HEAP      GOAL      IDLE   ALLOC/S   OBJS/S   GC/S  GC %
14:03:05   4.0 TiB   512 GiB   1.0 TiB   2.0 TiB         -        -      -     -
14:03:07   4.0 TiB   512 GiB   1.0 TiB   2.0 TiB   5.0 GiB     500k      0     -
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	var doc strings.Builder
	if err := (Memory{Memory: &later}).JSONLine(&doc, m); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Rates struct{ AllocBytesPerSecond float64 }
	}
	if err := json.Unmarshal([]byte(doc.String()), &got); err != nil || got.Rates.AllocBytesPerSecond != 5<<30 || strings.Count(doc.String(), "\n") != 1 {
		t.Errorf("%v, %s", err, doc.String())
	}
}
