package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/memory"
	"github.com/loupe-go/loupe/internal/term"
)

// Memory is a reading of a process's memory, for output.
type Memory struct {
	Info   event.ProcessInfo
	Memory *event.Memory
	Sizes  int // the number of size classes that Text lists; 0 lists all
}

// memoryWriter writes rows of a name, a number and a note.
type memoryWriter struct {
	w     io.Writer
	style term.Style
	width int
}

// The columns of the page.
const (
	memoryName   = 22
	memoryNumber = 10
	memoryIndent = 2 + memoryName + 1 + memoryNumber + 2 // of the notes
)

// Text writes the reading as one page. Lines are wrapped at width columns; 0 means no limit.
func (r Memory) Text(out io.Writer, style term.Style, width int) error {
	buf := bufio.NewWriter(out)
	m := r.Memory
	w := memoryWriter{buf, style, width}
	fmt.Fprintln(buf, style.Bold(term.Wrap(memory.Verdict(m), width, 0)))
	w.findings(m)
	w.resident(m)
	w.cgroup(m.Process.CGroup)
	w.heap(m)
	w.runtime(&m.Runtime)
	w.collector(m)
	w.sizes(m, r.Sizes)
	if m.Reading.Torn {
		fmt.Fprintf(buf, "\n%s\n", style.Warn(term.Wrap(fmt.Sprintf("The program allocated %s and freed %s during the reading; sums are off by at most these.",
			size(m.Reading.Allocated), size(m.Reading.Freed)), width, 0)))
	}
	return buf.Flush()
}

func (w memoryWriter) title(text string) { fmt.Fprintf(w.w, "\n%s\n", w.style.Bold(text)) }

func (w memoryWriter) row(name, number, note string) {
	line := fmt.Sprintf("  %-*s %*s", memoryName, name, memoryNumber, number)
	if note != "" {
		line += "  " + term.Wrap(term.Escape(note), w.width, memoryIndent)
	}
	fmt.Fprintln(w.w, line)
}

// findings writes what looks wrong.
func (w memoryWriter) findings(m *event.Memory) {
	for _, f := range memory.Findings(m) {
		fmt.Fprintf(w.w, "\n%s\n", w.style.Warn(term.Wrap(f.Name+": "+f.Found, w.width, 0)))
		for _, more := range []string{f.Means, f.Remedy} {
			if more != "" {
				fmt.Fprintf(w.w, "  %s\n", w.style.Dim(term.Wrap(more, w.width, 2)))
			}
		}
	}
}

// resident writes who explains the resident memory.
func (w memoryWriter) resident(m *event.Memory) {
	p := &m.Process
	w.title("Resident memory (RSS)")
	parts := p.Parts
	if parts == nil {
		w.row("total", size(p.RSS), fmt.Sprintf("anonymous %s, files %s, shared %s", size(p.Anon), size(p.File), size(p.Shmem)))
		return
	}
	share := func(n uint64) string { return memory.Percent(n, parts.Sum()) }
	bound := ""
	if parts.MetadataBound {
		bound = ", at most: the runtime obtained " + size(m.Runtime.Metadata())
	}
	heap := fmt.Sprintf("in use %s, idle and not released %s, stacks %s", size(m.Heap.Inuse), size(m.Heap.Retained()), size(m.Runtime.StackInuse))
	if held := memory.HeapHeld(m); held > parts.Arenas+parts.Arenas/4 {
		heap += "; pages that were never used or are in swap are not resident"
	}
	for _, row := range []struct {
		name string
		n    uint64
		note string
	}{
		{"Go heap", parts.Arenas, share(parts.Arenas) + ": " + heap},
		{"Go runtime's metadata", parts.Metadata, share(parts.Metadata) + bound},
		{"executable", parts.Executable, share(parts.Executable)},
		{"other files", parts.Files, share(parts.Files)},
		{"shared memory", parts.Shared, share(parts.Shared)},
		{"C heap", parts.CHeap, share(parts.CHeap)},
		{"other memory", parts.Other, share(parts.Other) + ": C code, its threads' stacks, mmap"},
	} {
		if row.n > 0 {
			w.row(row.name, size(row.n), row.note)
		}
	}
	w.row("total", size(parts.Sum()), fmt.Sprintf("anonymous %s, files %s, shared %s; peak %s; swap %s", size(p.Anon), size(p.File), size(p.Shmem), size(p.Peak), size(p.Swap)))
	if foreign := memory.Foreign(parts); foreign > parts.Sum()/10 {
		w.title("Largest mappings outside the Go heap")
		for _, l := range parts.Largest {
			if l.RSS >= parts.Sum()/100 {
				w.row(fmt.Sprintf("%x-%x", l.Start, l.End), size(l.RSS), cmp.Or(l.Name, "anonymous"))
			}
		}
	}
}

func (w memoryWriter) cgroup(c *event.CGroupMemory) {
	if c == nil {
		return
	}
	w.title("Control group")
	w.row("memory in use", size(c.Current), c.Path)
	if l := c.Limit; l != nil {
		note := memory.Percent(l.Current, l.Max) + " in use"
		if l.Path != c.Path {
			note += " by " + l.Path
		}
		w.row("limit", size(l.Max), note)
	}
}

func (w memoryWriter) heap(m *event.Memory) {
	h := &m.Heap
	w.title("Heap")
	w.row("allocated objects", size(h.Alloc), english.Count(h.Objects, "object"))
	live := "found reachable by the last collection"
	if m.GC.Cycles == 0 {
		live = "no collection has ended yet"
	}
	w.row("live", size(h.Live), live)
	if memory.Endless(h) {
		w.row("goal", "-", "the collector is off")
	} else {
		w.row("goal", size(h.Goal), "size at which the next collection ends (NextGC)")
	}
	w.row("spans in use", size(h.Inuse), fmt.Sprintf("of which %s (%s) are free slots", size(h.Unused()), memory.Percent(h.Unused(), h.Inuse)))
	w.row("idle", size(h.Idle), fmt.Sprintf("of which %s are returned to the kernel", size(h.Released)))
	w.row("allocated in total", size(h.TotalAlloc), fmt.Sprintf("%s; freed %s", english.Count(h.Mallocs, "object"), english.Count(h.Frees, "object")))
}

func (w memoryWriter) runtime(r *event.RuntimeMemory) {
	w.title("Go runtime")
	w.row("stacks", size(r.StackInuse), sysNote(r.StackSys, r.StackInuse))
	w.row("GC metadata", size(r.GCSys), "")
	w.row("spans", size(r.MSpanInuse), sysNote(r.MSpanSys, r.MSpanInuse))
	w.row("caches", size(r.MCacheInuse), sysNote(r.MCacheSys, r.MCacheInuse))
	w.row("profiles", size(r.BuckHashSys), "")
	w.row("other", size(r.OtherSys), "")
	w.row("obtained in total", size(r.Sys), "with the heap, including memory that was returned (Sys)")
}

func sysNote(sys, inuse uint64) string {
	if sys == inuse {
		return ""
	}
	return "of " + size(sys) + " obtained"
}

func (w memoryWriter) collector(m *event.Memory) {
	gc := &m.GC
	w.title("Garbage collector")
	note := english.Number(gc.Forced) + " forced by the program"
	if !gc.Last.IsZero() {
		note += fmt.Sprintf("; last one %s ago", ShortTime(max(m.Time.Sub(gc.Last), 0)))
	}
	if gc.Running {
		note += "; one is in progress"
	}
	w.row("collections", english.Number(gc.Cycles), note)
	if len(gc.Pauses) > 0 {
		longest := slices.MaxFunc(gc.Pauses, func(a, b event.GCPause) int { return cmp.Compare(a.Duration, b.Duration) })
		w.row("pauses", ShortTime(gc.PauseTotal), fmt.Sprintf("in total; last %s, longest of the last %s %s", ShortTime(gc.Pauses[0].Duration),
			english.Number(len(gc.Pauses)), ShortTime(longest.Duration)))
	}
	w.row("share of CPU", fmt.Sprintf("%.2f %%", 100*gc.CPUFraction), cpuNote(gc.CPU))
	percent := fmt.Sprintf("%d %%", gc.Percent)
	if gc.Percent < 0 {
		percent = "off"
	}
	w.row("GOGC", percent, "")
	switch {
	case gc.MemoryLimit == nil:
		w.row("GOMEMLIMIT", "-", "this Go release has none")
	case memory.Unlimited(gc):
		w.row("GOMEMLIMIT", "not set", "")
	default:
		w.row("GOMEMLIMIT", size(uint64(*gc.MemoryLimit)), "")
	}
}

func cpuNote(c *event.GCCPUSeconds) string {
	if c == nil {
		return ""
	}
	s := func(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
	return fmt.Sprintf("mark %s, assist %s, idle mark %s, pause %s; scavenger %s; program %s", s(c.Dedicated), s(c.Assist), s(c.IdleMark), s(c.Pause), s(c.Scavenge), s(c.User))
}

// sizeRow is the live objects of a size class. Size 0 stands for large objects.
type sizeRow struct {
	event.SizeClass
	live, bytes uint64
}

// sizes writes the size classes with the most memory.
func (w memoryWriter) sizes(m *event.Memory, most int) {
	small := uint64(0)
	var rows []sizeRow
	for _, c := range m.BySize {
		live := c.Mallocs - c.Frees
		small += live * uint64(c.Size)
		if c.Mallocs > 0 {
			rows = append(rows, sizeRow{c, live, live * uint64(c.Size)})
		}
	}
	h := &m.Heap
	if h.LargeAllocs > 0 {
		rows = append(rows, sizeRow{event.SizeClass{Mallocs: h.LargeAllocs, Frees: h.LargeFrees}, h.LargeAllocs - h.LargeFrees, h.Alloc - min(small, h.Alloc)})
	}
	slices.SortStableFunc(rows, func(a, b sizeRow) int { return cmp.Compare(b.bytes, a.bytes) })
	w.title("Objects by size class")
	t := table{head: []string{"  SIZE", "MEMORY", "SHARE", "OBJECTS", "ALLOCATED", "FREED"}, right: map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true}}
	hidden := 0
	if most > 0 && len(rows) > most {
		hidden, rows = len(rows)-most, rows[:most]
	}
	for _, r := range rows {
		name := "  " + english.Number(r.Size) + " B"
		if r.Size == 0 {
			name = "  > 32 KiB"
		}
		t.add(name, size(r.bytes), memory.Percent(r.bytes, h.Alloc), english.Number(r.live), english.Number(r.Mallocs), english.Number(r.Frees))
	}
	t.write(w.w, w.style, w.width)
	if hidden > 0 {
		fmt.Fprintf(w.w, "  %s\n", w.style.Dim(english.Count(hidden, "more size class")+" (--sizes 0 shows all)"))
	}
}

func size(n uint64) string { return english.Size(int64(min(n, math.MaxInt64))) }

// MemoryLines writes readings one after the other as lines of a table.
type MemoryLines struct {
	out    io.Writer
	style  term.Style
	before *event.Memory
	lines  int
}

// NewMemoryLines returns a MemoryLines that writes to out.
func NewMemoryLines(out io.Writer, style term.Style) *MemoryLines {
	return &MemoryLines{out: out, style: style}
}

// memoryColumns are the columns of MemoryLines: at most 80 characters.
const memoryColumns = "%-8s %9s %9s %9s %9s %9s %8s %6s %5s"

// headEvery is the number of lines after which the head of the table is repeated.
const headEvery = 20

// Add writes a reading.
func (l *MemoryLines) Add(m *event.Memory) error {
	if l.lines%headEvery == 0 {
		head := fmt.Sprintf(memoryColumns, "TIME", "RSS", "HEAP", "GOAL", "IDLE", "ALLOC/S", "OBJS/S", "GC/S", "GC %")
		if _, err := fmt.Fprintln(l.out, l.style.Bold(head)); err != nil {
			return err
		}
	}
	l.lines++
	goal := size(m.Heap.Goal)
	if memory.Endless(&m.Heap) {
		goal = "off"
	}
	alloc, objects, cycles, cpu := "-", "-", "-", "-"
	if r, ok := memory.RatesBetween(l.before, m); ok {
		alloc, objects, cycles = size(uint64(r.AllocBytes)), english.Rate(r.Allocs), english.Rate(r.Cycles)
		if r.GCShare >= 0 {
			cpu = fmt.Sprintf("%.1f", 100*r.GCShare)
		}
	}
	l.before = m
	line := fmt.Sprintf(memoryColumns, m.Time.Format(time.TimeOnly), size(m.Process.RSS), size(m.Heap.Alloc), goal, size(m.Heap.Retained()), alloc, objects, cycles, cpu)
	_, err := fmt.Fprintln(l.out, strings.TrimRight(line, " "))
	return err
}
