package goproc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// memStats is what program larder prints: the numbers of runtime.MemStats and of runtime/metrics by name. Those of arrays have
// names such as "PauseNs[3]" and "BySize[2].Frees".
type memStats map[string]uint64

func readMemStats(t *testing.T, target *testtarget.Process) memStats {
	t.Helper()
	line := target.Command("books")
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%v in %.200s", err, line)
	}
	s := memStats{}
	s.add(t, "", doc)
	return s
}

func (s memStats) add(t *testing.T, name string, v any) {
	switch v := v.(type) {
	case json.Number:
		n, err := parseUint(v)
		if err != nil {
			t.Fatal(err)
		}
		s[name] = n
	case []any:
		for i, e := range v {
			s.add(t, fmt.Sprintf("%s[%d]", name, i), e)
		}
	case map[string]any:
		for key, e := range v {
			switch {
			case key == "":
			case name == "" || strings.HasPrefix(key, "/"):
				s.add(t, key, e)
			default:
				s.add(t, name+"."+key, e)
			}
		}
	}
}

func parseUint(n json.Number) (v uint64, err error) {
	_, err = fmt.Sscan(n.String(), &v)
	return v, err
}

// memStatsOf returns the numbers of a reading under the names of runtime.MemStats and runtime/metrics.
func memStatsOf(m *event.Memory) memStats {
	h, r, gc := &m.Heap, &m.Runtime, &m.GC
	s := memStats{
		"Alloc": h.Alloc, "HeapAlloc": h.Alloc, "TotalAlloc": h.TotalAlloc, "Sys": r.Sys, "Mallocs": h.Mallocs, "Frees": h.Frees,
		"HeapSys": h.Sys, "HeapIdle": h.Idle, "HeapInuse": h.Inuse, "HeapReleased": h.Released, "HeapObjects": h.Objects,
		"StackInuse": r.StackInuse, "StackSys": r.StackSys, "MSpanInuse": r.MSpanInuse, "MSpanSys": r.MSpanSys,
		"MCacheInuse": r.MCacheInuse, "MCacheSys": r.MCacheSys, "BuckHashSys": r.BuckHashSys, "GCSys": r.GCSys, "OtherSys": r.OtherSys,
		"NextGC": h.Goal, "PauseTotalNs": uint64(gc.PauseTotal), "NumGC": uint64(gc.Cycles), "NumForcedGC": uint64(gc.Forced),
		"GCCPUFraction": math.Float64bits(gc.CPUFraction), "LastGC": 0,

		"/gc/cycles/automatic:gc-cycles": uint64(gc.Cycles - gc.Forced), "/gc/cycles/forced:gc-cycles": uint64(gc.Forced),
		"/gc/cycles/total:gc-cycles": uint64(gc.Cycles), "/gc/heap/allocs:bytes": h.TotalAlloc, "/gc/heap/allocs:objects": h.Mallocs - h.Tiny,
		"/gc/heap/frees:bytes": h.TotalAlloc - h.Alloc, "/gc/heap/frees:objects": h.Frees - h.Tiny, "/gc/heap/goal:bytes": h.Goal,
		"/gc/heap/live:bytes": h.Live, "/gc/heap/objects:objects": h.Objects, "/gc/heap/tiny/allocs:objects": h.Tiny,
		"/gc/gogc:percent": uint64(gc.Percent), "/memory/classes/heap/free:bytes": h.Retained(),
		"/memory/classes/heap/objects:bytes": h.Alloc, "/memory/classes/heap/released:bytes": h.Released,
		"/memory/classes/heap/stacks:bytes": r.StackInuse, "/memory/classes/heap/unused:bytes": h.Unused(),
		"/memory/classes/metadata/mcache/inuse:bytes": r.MCacheInuse, "/memory/classes/metadata/mcache/free:bytes": r.MCacheSys - r.MCacheInuse,
		"/memory/classes/metadata/mspan/inuse:bytes": r.MSpanInuse, "/memory/classes/metadata/mspan/free:bytes": r.MSpanSys - r.MSpanInuse,
		"/memory/classes/metadata/other:bytes": r.GCSys, "/memory/classes/os-stacks:bytes": r.StackSys - r.StackInuse,
		"/memory/classes/other:bytes": r.OtherSys, "/memory/classes/profiling/buckets:bytes": r.BuckHashSys,
		"/memory/classes/total:bytes": r.Sys,
	}
	if gc.MemoryLimit != nil {
		s["/gc/gomemlimit:bytes"] = uint64(*gc.MemoryLimit)
	}
	if !gc.Last.IsZero() {
		s["LastGC"] = uint64(gc.Last.UnixNano())
	}
	for i := range 256 { // the runtime keeps rings
		s[fmt.Sprintf("PauseNs[%d]", i)], s[fmt.Sprintf("PauseEnd[%d]", i)] = 0, 0
	}
	for i, p := range gc.Pauses {
		at := (int(gc.Cycles) - 1 - i) % 256
		s[fmt.Sprintf("PauseNs[%d]", at)], s[fmt.Sprintf("PauseEnd[%d]", at)] = uint64(p.Duration), uint64(p.End.UnixNano())
	}
	s["BySize[0].Size"], s["BySize[0].Mallocs"], s["BySize[0].Frees"] = 0, 0, 0
	for i, c := range m.BySize[:60] {
		name := fmt.Sprintf("BySize[%d].", i+1)
		s[name+"Size"], s[name+"Mallocs"], s[name+"Frees"] = uint64(c.Size), c.Mallocs, c.Frees
	}
	if c := gc.CPU; c != nil {
		for name, d := range map[string]time.Duration{
			"gc/mark/assist": c.Assist, "gc/mark/dedicated": c.Dedicated, "gc/mark/idle": c.IdleMark, "gc/pause": c.Pause,
			"gc/total": c.GC, "scavenge/total": c.Scavenge, "idle": c.Idle, "user": c.User, "total": c.Total,
		} {
			// runtime.nsToSec
			s["/cpu/classes/"+name+":cpu-seconds"] = math.Float64bits(float64(d) / 1e9)
		}
	}
	return s
}

// notRead are the names of numbers that Memory does not have.
var notRead = []string{"/sched/", "/sync/", "/godebug/", "/cgo/", "/gc/scan/", "/gc/stack/", "/gc/limiter/", "/gc/finalizers/", "/gc/cleanups/",
	"/cpu/classes/scavenge/assist", "/cpu/classes/scavenge/background", "/gc/pauses"}

// TestMemoryTruth compares readings with what the targets' own runtime.ReadMemStats and runtime/metrics return, on every Go
// release and in every shape of executable.
func TestMemoryTruth(t *testing.T) {
	for _, spec := range testtarget.Matrix(t, "larder") {
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			p := openMemory(t, target)
			for _, step := range [][]string{
				nil, {"keep 3000 100", "gc"}, {"classes"}, {"keep 3 3", "keep 100 40"}, {"gc"}, {"drop", "gc"}, {"keep 20 300000", "stacks 50"}, {"gc", "percent 50"},
				{"free"}, {"limit 30000000", "gc"}, {"limit 1000000", "gc"}, {"limit 9223372036854775807", "percent -1"},
				{"churn 4", "still"}, {"percent 300", "gc"},
			} {
				for _, command := range step {
					target.Command(command)
				}
				compareMemory(t, p, target, fmt.Sprint(step))
			}
			for range 130 { // the rings of pauses wrap
				target.Command("gc")
			}
			compareMemory(t, p, target, "260 collections")
		})
	}
}

func openMemory(t *testing.T, target *testtarget.Process) *goproc.Process {
	t.Helper()
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// compareMemory compares every number. The target prints its own before and after the reading. The runtime returns memory to
// the kernel in the background and may start a thread, so the comparison is repeated until both are equal.
func compareMemory(t *testing.T, p *goproc.Process, target *testtarget.Process, step string) {
	t.Helper()
	compareCaches(t, p, target, step)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		before := readMemStats(t, target)
		m, err := p.Memory(context.Background(), goproc.MemoryOptions{})
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		after := readMemStats(t, target)
		if !sameMemStats(before, after) {
			if time.Now().After(deadline) {
				for name, v := range before {
					if v != after[name] {
						t.Logf("%s: %s is %d, then %d", step, name, v, after[name])
					}
				}
				t.Fatalf("%s: the target does not come to rest", step)
			}
			continue
		}
		if m.Reading.Torn {
			t.Errorf("%s: a torn reading of a target at rest", step)
		}
		got, compared := memStatsOf(m), 0
		for _, name := range slices.Sorted(maps.Keys(after)) {
			v, ok := got[name]
			switch {
			case slices.ContainsFunc(notRead, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			case !ok:
				t.Errorf("%s: no %s", step, name)
			case v != after[name]:
				t.Errorf("%s: %s is %d, want %d", step, name, v, after[name])
			default:
				compared++
			}
		}
		if compared < 700 {
			t.Errorf("%s: %d numbers compared", step, compared)
		}
		return
	}
}

// compareCaches compares the counters of allocated objects before runtime.ReadMemStats empties the caches of the Ps. It frees
// objects in the course of that, so the counters of freed objects are not compared. ReadMemStats itself may allocate a sudog to
// wait for another stop of the world, and on a busy machine the target starts threads, which it allocates too. So there are
// several attempts.
func compareCaches(t *testing.T, p *goproc.Process, target *testtarget.Process, step string) {
	t.Helper()
	var problems []string
	for range 20 {
		m, err := p.Memory(context.Background(), goproc.MemoryOptions{})
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		got, want := memStatsOf(m), readMemStats(t, target)
		problems = nil
		for name := range got {
			if name == "TotalAlloc" || strings.HasSuffix(name, "Mallocs") || name == "/gc/heap/tiny/allocs:objects" || name == "/gc/heap/allocs:bytes" {
				if v, ok := want[name]; ok && v != got[name] {
					problems = append(problems, fmt.Sprintf("%s is %d, want %d", name, got[name], v))
				}
			}
		}
		if len(problems) == 0 {
			return
		}
		target.Command("keep 5 100")
	}
	t.Errorf("%s: with objects in caches: %s", step, strings.Join(problems, "; "))
}

// sameMemStats reports whether the numbers that are compared are equal.
func sameMemStats(a, b memStats) bool {
	skip := func(name string, _ uint64) bool {
		return slices.ContainsFunc(notRead, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	}
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, skip)
	maps.DeleteFunc(b, skip)
	return maps.Equal(a, b)
}

// TestMemoryEnvironment reads what the environment variables set.
func TestMemoryEnvironment(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.16.15", "1.17.13", "1.19.13", testtarget.Latest()) {
		t.Run(version, func(t *testing.T) {
			path := testtarget.Build(t, testtarget.Spec{Program: "larder", Go: version, Stripped: true})
			for gogc, want := range map[string]int32{"off": -1, "": 100, "37": 37} {
				cmd := testcmd.Within(t, 0, path)
				cmd.Env = append(os.Environ(), "GOGC="+gogc, "GOMEMLIMIT=123MiB")
				p := openMemory(t, testtarget.StartCmd(t, cmd))
				m, err := p.Memory(context.Background(), goproc.MemoryOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if m.GC.Percent != want {
					t.Errorf("GOGC=%s is read as %d", gogc, m.GC.Percent)
				}
				limited := p.Binary().Version().Minor >= 19
				if limited != (m.GC.MemoryLimit != nil) || limited && *m.GC.MemoryLimit != 123<<20 {
					t.Errorf("GOMEMLIMIT=123MiB is read as %v", m.GC.MemoryLimit)
				}
			}
		})
	}
}

// TestMemoryBusy reads a program that allocates on all processors: counters lie between those that the target prints before
// and after, but for what a torn reading says about itself, and never decrease by more.
func TestMemoryBusy(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.15.15", "1.16.15", "1.18.10", "1.19.13", testtarget.Latest()) {
		t.Run(version, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "larder", Go: version, Stripped: true}))
			p := openMemory(t, target)
			target.Command("churn 8")
			torn, attempts := 0, 0
			var last *event.Memory
			for range 40 {
				before := readMemStats(t, target)
				m, err := p.Memory(context.Background(), goproc.MemoryOptions{})
				if err != nil {
					t.Fatal(err)
				}
				after := readMemStats(t, target)
				attempts += m.Reading.Attempts
				if m.Reading.Torn {
					torn++
				}
				got := memStatsOf(m)
				slack := m.Reading.Allocated + m.Reading.Freed
				if p.Binary().Version().Minor < 19 {
					slack += uint64(runtime.NumCPU()) * 81920 // a span of the largest kind for each P, see MemoryReading.Torn
				}
				for name, slack := range map[string]uint64{
					"TotalAlloc": slack, "Mallocs": slack / 8, "Frees": slack / 8, "NumGC": 0, "PauseTotalNs": 0, "LastGC": 0,
					"/gc/heap/frees:bytes": slack, "/gc/heap/frees:objects": slack / 8, "/cpu/classes/gc/total:cpu-seconds": 0,
				} {
					lo, known := before[name]
					if known && (got[name]+slack < lo || got[name] > after[name]+slack) {
						t.Errorf("%s is %d (torn %v, slack %d), before it was %d and then %d", name, got[name], m.Reading.Torn, slack, lo, after[name])
					}
				}
				if last != nil && m.Heap.TotalAlloc+slack+last.Reading.Allocated < last.Heap.TotalAlloc {
					t.Errorf("%d bytes allocated, and %d before", m.Heap.TotalAlloc, last.Heap.TotalAlloc)
				}
				last = m
			}
			t.Logf("%d of 40 readings were torn; %.1f attempts a reading", torn, float64(attempts)/40)
			target.Command("still")
		})
	}
}

// TestMemoryWhileCollecting reads the counters of a target that collects garbage nearly all the time, for longer than a reading is
// repeated. Since Go 1.22 the pause at the start of a collection is in some of the sums of processor time until its end, and not in the others.
func TestMemoryWhileCollecting(t *testing.T) {
	for _, spec := range testtarget.SpecsAmong(t, testtarget.Spec{Program: "larder", Go: "1.12.17"}, testtarget.Spec{Program: "larder", Go: testtarget.Latest()}) {
		t.Run(spec.String(), func(t *testing.T) {
			cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
			cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
			target := testtarget.StartCmd(t, cmd)
			p := openMemory(t, target)
			target.Command("percent -1")
			target.Command("keep 6000000 16")
			target.Command("percent 100")
			var collecting sync.WaitGroup
			var over atomic.Bool
			collecting.Go(func() {
				for !over.Load() {
					target.Command("gc")
				}
			})
			defer collecting.Wait()
			defer over.Store(true)
			for running, began := 0, time.Now(); running < 20; {
				m, err := p.Memory(t.Context(), goproc.MemoryOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if m.GC.Running {
					running++
				}
				if time.Since(began) > time.Minute {
					t.Fatalf("a collection ran during %d readings only", running)
				}
			}
		})
	}
}
