package goproc_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestMemoryRealPrograms compares readings of programs that were not written for Loupe with the runtime.MemStats that they
// write at the end of their heap profiles.
func TestMemoryRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		if spec.Name == "syncthing" || spec.Name == "gopls" {
			continue // syncthing requires a password for its profiles; gopls works on after its answers
		}
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			equal, between := 0, 0
			for range 20 {
				before := profileStats(t, target)
				m, err := p.Memory(context.Background(), goproc.MemoryOptions{})
				if err != nil {
					t.Fatal(err)
				}
				after := profileStats(t, target)
				got := memStatsOf(m)
				// A collection borrows memory for its work and returns it.
				quiet := !m.Reading.Torn && !m.GC.Running && before["NumGC"] == after["NumGC"]
				for name, want := range after {
					v, ok := got[name]
					switch {
					case !ok: // MaxRSS is none of MemStats
					case name == "TotalAlloc" || name == "Mallocs" || name == "Frees":
						between++
						if m.Reading.Torn || v >= before[name] && v <= want {
							continue
						}
						t.Errorf("%s is %d, before it was %d and then %d", name, v, before[name], want)
					case name == "HeapSys" || name == "StackSys": // spans move between them; Sys has both
					case before[name] == want && strings.Contains(name, "Sys") || name == "NumGC" || name == "NextGC":
						equal++
						if v != want && before[name] == want && quiet {
							t.Errorf("%s is %d, want %d", name, v, want)
						}
					}
				}
			}
			if equal < 100 || between != 60 {
				t.Errorf("%d numbers were compared for equality, %d for order", equal, between)
			}
			m, err := p.Memory(context.Background(), goproc.MemoryOptions{Parts: true})
			if err != nil {
				t.Fatal(err)
			}
			parts := m.Process.Parts
			t.Logf("RSS %d: heap %d (in use %d), metadata %d, executable %d, other %d", m.Process.RSS, parts.Arenas, m.Heap.Inuse, parts.Metadata, parts.Executable, parts.Other)
			if off := math.Abs(float64(parts.Sum()) - float64(m.Process.RSS)); off > 0.1*float64(m.Process.RSS) {
				t.Errorf("the parts sum up to %d, the RSS is %d", parts.Sum(), m.Process.RSS)
			}
		})
	}
}

// profileStats returns the numbers of runtime.MemStats at the end of a heap profile (runtime/pprof.writeHeapInternal). The
// runtime reads them before it makes the profile.
func profileStats(t *testing.T, target *realtarget.Process) memStats {
	t.Helper()
	resp, err := http.Get(target.Pprof() + "/heap?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := bytes.Cut(text, []byte("# runtime.MemStats\n"))
	if !ok {
		t.Fatalf("no runtime.MemStats at %s", resp.Request.URL)
	}
	renamed := map[string][]string{"Stack": {"StackInuse", "StackSys"}, "MSpan": {"MSpanInuse", "MSpanSys"}, "MCache": {"MCacheInuse", "MCacheSys"}}
	s := memStats{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "# "), " = ")
		names := renamed[name]
		if names == nil {
			names = []string{name}
		}
		for i, v := range strings.Split(value, " / ") {
			if n, err := strconv.ParseUint(v, 10, 64); err == nil && name != "Lookups" {
				s[names[i]] = n
			}
		}
	}
	return s
}

// TestMemoryPartsLive compares the parts of the resident memory with /proc/PID/smaps of a target at rest that has mapped memory
// of its own and has a known heap.
func TestMemoryPartsLive(t *testing.T) {
	for _, spec := range testtarget.SpecsAmong(t, testtarget.Spec{Program: "larder", Go: "1.12.17", Stripped: true},
		testtarget.Spec{Program: "larder", Go: "1.19.13", Stripped: true}, testtarget.Spec{Program: "larder", Go: testtarget.Latest(), Stripped: true},
		testtarget.Spec{Program: "larder", Go: testtarget.Latest(), Cgo: true}) {
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			p := openMemory(t, target)
			const outside = 100 << 20
			target.Command(fmt.Sprint("map ", outside))
			target.Command("keep 300 100000")
			target.Command("free")
			var heap uint64
			if _, err := fmt.Sscanf(target.Command("where"), "where %d", &heap); err != nil {
				t.Fatal(err)
			}
			sums := func() (rss, mine uint64) {
				rss, mine, err := smapsSums(target.PID(), heap)
				if err != nil {
					t.Fatal(err)
				}
				return rss, mine
			}
			var m *event.Memory
			rss, mine := sums()
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				var err error
				if m, err = p.Memory(context.Background(), goproc.MemoryOptions{Parts: true}); err != nil {
					t.Fatal(err)
				}
				wasRSS, wasMine := rss, mine
				if rss, mine = sums(); rss == wasRSS && mine == wasMine {
					break // the runtime has returned no memory to the kernel meanwhile, and used none
				}
				if time.Now().After(deadline) {
					t.Fatal("the target does not come to rest")
				}
			}
			parts := m.Process.Parts
			if parts.Sum() != rss || parts.Arenas != mine {
				t.Errorf("parts %d, arenas %d; smaps has %d and %d", parts.Sum(), parts.Arenas, rss, mine)
			}
			// VmRSS is the sum of counters that each CPU adds to in batches.
			if off := math.Abs(float64(m.Process.RSS) - float64(rss)); off > 1<<20 {
				t.Errorf("VmRSS %d, smaps %d", m.Process.RSS, rss)
			}
			if parts.Arenas > m.Heap.Inuse+m.Heap.Retained()+m.Runtime.StackInuse+2<<20 {
				t.Errorf("%d bytes are resident in the arenas: in use %d, retained %d, stacks %d", parts.Arenas, m.Heap.Inuse, m.Heap.Retained(), m.Runtime.StackInuse)
			}
			if parts.Other+parts.Metadata < outside || parts.Other > outside+16<<20 || len(parts.Largest) == 0 || parts.Largest[0].RSS < outside {
				t.Errorf("%d bytes were mapped: other %d, metadata %d, largest %+v", outside, parts.Other, parts.Metadata, parts.Largest)
			}
			exe, err := os.Stat(target.Path())
			if err != nil || parts.Executable == 0 || parts.Executable > uint64(exe.Size())+4<<20 {
				t.Errorf("the executable of %d bytes has %d resident", exe.Size(), parts.Executable)
			}
			if cg := m.Process.CGroup; cg != nil && cg.Current < m.Process.RSS/2 {
				t.Errorf("cgroup %+v, RSS %d", cg, m.Process.RSS)
			}
		})
	}
}

// smapsSums returns the resident memory of a process, and that of the mappings within 128 MiB of an address. The heap of a
// small program is there, in one arena of 64 MiB or, since Go 1.26 places it at random, in two adjacent ones.
func smapsSums(pid int, at uint64) (all, there uint64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return 0, 0, err
	}
	var m procmap.Mapping
	for line := range strings.Lines(string(b)) {
		if list, err := procmap.Parse([]byte(line)); err == nil {
			m = list[0]
			continue
		}
		if text, ok := strings.CutPrefix(line, "Rss:"); ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil {
				return 0, 0, err
			}
			all += n << 10
			if m.Start < at+128<<20 && m.End > at-128<<20 {
				there += n << 10
			}
		}
	}
	return all, there, nil
}
