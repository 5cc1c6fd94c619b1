package loupe_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// allocSession counts the allocations of a target until the test ends.
type allocSession struct {
	*loupe.Session
	t    *testing.T
	read sync.WaitGroup
}

func countAllocs(t *testing.T, target *testtarget.Process, engine loupe.Engine, opt loupe.AllocOptions) *allocSession {
	t.Helper()
	return attachAllocs(t, target.PID(), engine, opt)
}

func attachAllocs(t *testing.T, pid int, engine loupe.Engine, opt loupe.AllocOptions) *allocSession {
	t.Helper()
	s, err := loupe.Attach(context.Background(), loupe.PID(pid), loupe.Options{Engine: engine, Allocs: opt})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range s.Warnings() {
		t.Logf("warning: %v", w)
	}
	a := &allocSession{Session: s, t: t}
	a.read.Go(func() {
		for e := range s.Events() {
			t.Errorf("an event: %+v", e)
		}
	})
	t.Cleanup(a.end)
	return a
}

func (a *allocSession) end() {
	if err := a.Close(); err != nil {
		a.t.Error(err)
	}
	a.read.Wait()
}

// counts returns the current counts, after the stacks of all of them have arrived.
func (a *allocSession) counts() *allocs.Counts {
	a.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		c := a.now()
		unknown := 0
		for _, p := range c.Places {
			if p.Stack == nil {
				unknown++
			}
		}
		if unknown == 0 || time.Since(began) > time.Second { // threads without a goroutine have none
			return c
		}
	}
}

// now returns the current counts.
func (a *allocSession) now() *allocs.Counts {
	a.t.Helper()
	c, err := a.Allocs()
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

var allocEngines = []loupe.Engine{loupe.EngineInline, loupe.EngineUprobe}

// bothAllocs sums by everything.
const bothAllocs = loupe.AllocsByGoroutine | loupe.AllocsByPlace

// TestAllocsTruth compares the allocations of an interval with the target's own runtime.MemStats at its ends.
func TestAllocsTruth(t *testing.T) {
	for _, spec := range allocSpecs(t) {
		for _, engine := range allocEngines {
			t.Run(fmt.Sprint(spec, "/", engine), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF needs root")
				}
				target := startMaker(t, spec, "MAKER_PROCS=1", "GOGC=off")
				s := countAllocs(t, target, engine, loupe.AllocOptions{By: bothAllocs})
				measureAllocs(t, target, s, 50)
			})
		}
	}
}

// startMaker starts a maker with variables in its environment.
func startMaker(t *testing.T, spec testtarget.Spec, env ...string) *testtarget.Process {
	t.Helper()
	cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
	cmd.Env = append(os.Environ(), env...)
	return testtarget.StartCmd(t, cmd)
}

// measureAllocs lets the target allocate, on one processor and without the collector, and compares the counts with what it says.
func measureAllocs(t *testing.T, target *testtarget.Process, s *allocSession, rounds int) *allocs.Counts {
	t.Helper()
	target.Command(fmt.Sprint("measure ", rounds))
	before := s.counts()
	target.Command("go")
	got := s.counts().Since(before)
	mallocs, bytes, sixteen := measured(t, target)
	if got.Lost != 0 || got.OtherGoroutines != (allocs.Sums{}) || got.OtherPlaces != (allocs.Sums{}) {
		t.Errorf("lost: %d, other goroutines %+v, other places %+v", got.Lost, got.OtherGoroutines, got.OtherPlaces)
	}
	t.Logf("%d objects, %d bytes, %d tiny", got.Total.Objects, got.Total.Bytes, got.Total.Tiny)
	if got.Total.Objects != mallocs {
		t.Errorf("%d objects, want %d", got.Total.Objects, mallocs)
	}
	// Objects of the class of 16 bytes that are not tiny, and the bytes of those in other classes.
	var own, others uint64
	for _, p := range got.Places {
		switch p.Size {
		case 0:
		case 16:
			own += p.Objects
		default:
			others += p.Bytes
		}
	}
	if blocks := sixteen - own; others+16*own+16*blocks != bytes {
		t.Errorf("%d bytes in classes but 16, %d objects of 16 bytes, %d blocks of the tiny allocator: want %d bytes", others, own, blocks, bytes)
	}
	if got.Total.Bytes != bytes {
		t.Errorf("%d bytes, want %d", got.Total.Bytes, bytes)
	}
	for _, d := range allocs.Dimensions() {
		var sum allocs.Sums
		for _, g := range got.By(d) {
			sum.Add(g.Sums)
		}
		if sum != got.Total {
			t.Errorf("by %s: %+v, want %+v", d, sum, got.Total)
		}
	}
	return got
}

// measured returns the differences of runtime.MemStats that the target has measured, and the number of its blocks of 16 bytes.
func measured(t *testing.T, target *testtarget.Process) (mallocs, bytes, sixteen uint64) {
	t.Helper()
	answer := target.Command("report")
	if _, err := fmt.Sscanf(answer, "measured %d %d %d", &mallocs, &bytes, &sixteen); err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	return mallocs, bytes, sixteen
}

func allocSpecs(t *testing.T) []testtarget.Spec {
	var specs, rare []testtarget.Spec
	for _, v := range testtarget.Versions() {
		specs, rare = append(specs, testtarget.Spec{Program: "maker", Go: v, Stripped: true}), append(rare, testtarget.Spec{Program: "maker", Go: v})
	}
	rare = append(rare, testtarget.Spec{Program: "maker", Go: "1.12.17", PIE: true}, testtarget.Spec{Program: "maker", Go: "1.17.13", PIE: true})
	return slices.Concat(specs, []testtarget.Spec{{Program: "maker", PIE: true}}, testtarget.Rare(t, rare...))
}

// TestAllocsCollected is TestAllocsTruth on all processors while the collector runs. The runtime then allocates before and after
// the intervals of the target and of the test, which are not the same: it starts threads when it starts the world.
func TestAllocsCollected(t *testing.T) {
	for _, version := range testtarget.Ends(t, testtarget.Versions()) {
		t.Run(version, func(t *testing.T) {
			target := startMaker(t, testtarget.Spec{Program: "maker", Go: version}, "MAKER_PROCS=4", "GOGC=20")
			s := countAllocs(t, target, loupe.EngineInline, loupe.AllocOptions{By: bothAllocs})
			target.Command("measure 300")
			before := s.counts()
			target.Command("go")
			got := s.counts().Since(before)
			mallocs, bytes, _ := measured(t, target)
			objects, off := int64(got.Total.Objects-mallocs), int64(got.Total.Bytes-bytes)
			t.Logf("%d objects, %+d; %d bytes, %+d", mallocs, objects, bytes, off)
			if got.Lost != 0 || objects < -50 || objects > 50 || off < -100<<10 || off > 100<<10 {
				t.Errorf("%+v, %d lost, want %d objects of %d bytes", got.Total, got.Lost, mallocs, bytes)
			}
		})
	}
}

// TestAllocTypes compares the types, functions and creators of a known number of allocations.
func TestAllocTypes(t *testing.T) {
	const rounds = 20
	for _, version := range testtarget.Versions() {
		t.Run(version, func(t *testing.T) {
			spec := testtarget.Spec{Program: "maker", Go: version, Stripped: true}
			target := startMaker(t, spec, "MAKER_PROCS=1", "GOGC=off")
			s := countAllocs(t, target, loupe.EngineInline, loupe.AllocOptions{By: bothAllocs})
			got := measureAllocs(t, target, s, rounds)
			types := map[string]uint64{}
			for _, g := range got.By(allocs.ByType) {
				types[g.Type] = g.Objects
			}
			for name, want := range map[string]uint64{
				"main.node": 10 * rounds, "main.plain": rounds, "main.mixed": 2 * rounds, "main.big": rounds, "main.huge": rounds,
				"[3]*int": rounds, "[10]int64": rounds, "[9]*int": rounds, "*int": 19 * rounds, "int32": 10 * rounds,
			} {
				if types[name] != want {
					t.Errorf("%d objects of type %s, want %d", types[name], name, want)
				}
			}
			functions := map[string]allocs.Group{}
			for _, g := range got.By(allocs.ByFunction) {
				functions[g.Frame.Func] = g
			}
			for name, want := range map[string]uint64{"main.makeLarge": 3 * rounds, "main.makePointers": 19 * rounds, "main.makeChannel": rounds, "main.makeStructs": 23 * rounds} {
				if functions[name].Objects != want {
					t.Errorf("%d objects in %s, want %d", functions[name].Objects, name, want)
				}
			}
			for _, g := range got.By(allocs.ByCreator) {
				if g.Frame.Func == "main.makeGoroutines" && g.Objects != 3*rounds {
					t.Errorf("%d objects of goroutines of main.makeGoroutines, want %d", g.Objects, 3*rounds)
				}
			}
			of1 := got.By(allocs.ByGoroutine)[0]
			if of1.Goroutine != 1 || !of1.Frame.IsZero() {
				t.Errorf("the goroutine with the most allocations is %+v, want 1", of1)
			}
		})
	}
}

// TestAllocsProfile compares the allocations of each function with the target's own memory profile with MemProfileRate 1. That
// counts of the objects that share blocks only those that begin a block.
func TestAllocsProfile(t *testing.T) {
	for _, version := range testtarget.Versions() {
		t.Run(version, func(t *testing.T) {
			target := startMaker(t, testtarget.Spec{Program: "maker", Go: version}, "MAKER_RATE=1", "MAKER_PROCS=1")
			s := countAllocs(t, target, loupe.EngineInline, loupe.AllocOptions{By: loupe.AllocsByPlace})
			target.Command("records 20")
			before := s.counts()
			target.Command("go")
			got := s.counts().Since(before)
			words := strings.Fields(target.Command("report"))[1:]
			// New goroutines and threads are allocated on a thread's own stack, which the memory profile shows instead of the caller's.
			own := []string{"runtime.g", "*runtime.g", "runtime.m"}
			got.Places = slices.DeleteFunc(got.Places, func(p allocs.Place) bool { return slices.Contains(own, p.Type) })
			functions := map[string]allocs.Group{}
			for _, g := range got.By(allocs.ByFunction) {
				functions[g.Frame.Func] = g
			}
			compared := 0
			for ; len(words) >= 3; words = words[3:] {
				objects, _ := strconv.ParseUint(words[1], 10, 64)
				bytes, _ := strconv.ParseUint(words[2], 10, 64)
				g := functions[words[0]]
				if g.Tiny == 0 && g.Objects != objects || g.Bytes != bytes || g.Objects-g.Tiny > objects {
					t.Errorf("%s: %+v, want %d objects of %d bytes", words[0], g.Sums, objects, bytes)
				}
				compared++
			}
			if compared < 10 {
				t.Errorf("%d functions compared", compared)
			}
		})
	}
}

// TestAllocsOverflow counts more goroutines and places than have room: totals and creators stay exact.
func TestAllocsOverflow(t *testing.T) {
	for _, engine := range allocEngines {
		t.Run(string(engine), func(t *testing.T) {
			if engine == loupe.EngineUprobe && os.Getuid() != 0 {
				t.Skip("eBPF needs root")
			}
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "maker"}))
			s := countAllocs(t, target, engine, loupe.AllocOptions{By: bothAllocs, Goroutines: 50, Places: 20})
			const n = 3000
			target.Command(fmt.Sprint("churn ", n))
			target.Command("round 5")
			s.end()
			got, err := s.Allocs()
			if err != nil {
				t.Fatal(err)
			}
			created := uint64(0)
			for _, g := range got.By(allocs.ByCreator) {
				if g.Frame.Func == "main.churn" {
					created += g.Objects
				}
			}
			if created != n {
				t.Errorf("%d objects of the goroutines of main.churn, want %d", created, n)
			}
			if len(got.Creators) == 0 || got.OtherPlaces.Objects == 0 || got.Lost != 0 {
				t.Errorf("%d goroutines, %d creators, others %+v and %+v, %d lost", len(got.Goroutines), len(got.Creators), got.OtherGoroutines, got.OtherPlaces, got.Lost)
			}
			for _, d := range allocs.Dimensions() {
				var sum allocs.Sums
				for _, g := range got.By(d) {
					sum.Add(g.Sums)
				}
				if sum != got.Total {
					t.Errorf("by %s: %+v, want %+v", d, sum, got.Total)
				}
			}
		})
	}
}

// TestAllocsManyPlaces counts at more places than have room. They differ in their outer callers, and the sums of the functions that
// allocate stay exact.
func TestAllocsManyPlaces(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.12.17", "1.21.13", testtarget.Latest()) {
		for _, engine := range allocEngines {
			t.Run(fmt.Sprint(version, "/", engine), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF needs root")
				}
				target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "granary", Go: version, Stripped: true}), "1")
				s := countAllocs(t, target, engine, loupe.AllocOptions{By: loupe.AllocsByPlace, Places: 500})
				const n = 4000 // of 24 bytes, in some releases a class of 32, on as many stacks that differ in their outer callers
				target.Command(fmt.Sprint("crowd ", n))
				s.end()
				got, err := s.Allocs()
				if err != nil {
					t.Fatal(err)
				}
				var objects uint64
				whole, short := 0, 0
				for _, p := range got.Places {
					if f := allocs.Allocator(p.Stack).Func; p.Size != 24 && p.Size != 32 || f != "main.left" && f != "main.right" {
						continue
					}
					objects += p.Objects
					if len(p.Stack.Frames) <= 6 {
						short++
					} else {
						whole++
					}
				}
				t.Logf("%d whole stacks, %d innermost callers, others %+v", whole, short, got.OtherPlaces)
				if objects != n || got.OtherPlaces != (allocs.Sums{}) || got.Lost != 0 {
					t.Errorf("%d objects, want %d; others %+v; %d lost", objects, n, got.OtherPlaces, got.Lost)
				}
				if whole < 300 || whole > n*3/4 || short == 0 || short > 100 {
					t.Errorf("%d whole stacks and %d innermost callers", whole, short)
				}
			})
		}
	}
}

// TestAllocsTorture attaches to a program that allocates on all processors while it collects garbage, and detaches, again and
// again: what it computes stays right.
func TestAllocsTorture(t *testing.T) {
	times := 20
	if *torture >= 10*time.Second {
		times = 100
	}
	for _, version := range testtarget.Ends(t, testtarget.Among(t, "1.12.17", "1.17.13", "1.21.13", "1.24.13", testtarget.Latest())) {
		spec := testtarget.Spec{Program: "maker", Go: version}
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			want := target.Command("sum 2000")
			over, sums := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				defer func() { sums <- n }()
				for ; ; n++ {
					select {
					case <-over:
						return
					default:
						if got := target.Command("sum 2000"); got != want {
							t.Errorf("%s, want %s", got, want)
						}
					}
				}
			}()
			var objects uint64
			for i := range times {
				engine := loupe.EngineInline
				if i%10 == 9 && os.Getuid() == 0 {
					engine = loupe.EngineUprobe
				}
				s, err := loupe.Attach(context.Background(), loupe.PID(target.PID()), loupe.Options{Engine: engine, Allocs: loupe.AllocOptions{By: bothAllocs}})
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					for range s.Events() {
					}
				}()
				time.Sleep(time.Duration(i%7) * 5 * time.Millisecond)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				c, err := s.Allocs()
				if err != nil {
					t.Fatal(err)
				}
				objects += c.Total.Objects
			}
			close(over)
			t.Logf("%d sums, %d objects counted in %d sessions", <-sums, objects, times)
			if objects == 0 {
				t.Error("no object was counted")
			}
		})
	}
}

// TestAllocsRealPrograms compares the allocations of programs that were not written for Loupe with their own runtime.MemStats. The
// moment of these is between two polls.
func TestAllocsRealPrograms(t *testing.T) {
	for _, spec := range realtarget.Chosen(t) {
		engines := []loupe.Engine{loupe.EngineInline}
		if spec.Name == "nats-server" || spec.Name == "caddy" {
			engines = allocEngines
		}
		for _, engine := range engines {
			t.Run(spec.Name+"/"+string(engine), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF needs root")
				}
				target := spec.Start(t)
				s := attachAllocs(t, target.PID(), engine, loupe.AllocOptions{By: bothAllocs})
				p := []*allocs.Counts{s.now()}
				mallocs, bytes := target.MemStats()
				p = append(p, s.now())
				load := target.StartLoad()
				load.Await(t, 20)
				time.Sleep(time.Second)
				answered, err := load.Stop()
				if err != nil {
					t.Errorf("a wrong answer while observed: %v", err)
				}
				p = append(p, s.now())
				mallocs2, bytes2 := target.MemStats()
				p = append(p, s.now())
				least, most := p[2].Since(p[1]), p[3].Since(p[0])
				mallocs, bytes = mallocs2-mallocs, bytes2-bytes
				t.Logf("%d requests; %d objects, want %d to %d; %d bytes, want %d to %d", answered, mallocs, least.Total.Objects, most.Total.Objects,
					bytes, least.Total.Bytes, most.Total.Bytes)
				const slack = 16 * 1000 // of tiny objects while the collector runs
				if most.Lost > 0 || mallocs < least.Total.Objects || mallocs > most.Total.Objects || bytes+slack < least.Total.Bytes || bytes > most.Total.Bytes+slack {
					t.Errorf("%d lost; %d objects of %d bytes, want %d to %d of %d to %d", most.Lost, mallocs, bytes, least.Total.Objects, most.Total.Objects,
						least.Total.Bytes, most.Total.Bytes)
				}
				expectFunctions(t, most)
			})
		}
	}
}

// expectFunctions expects that nearly all bytes belong to functions outside the runtime. The others are the runtime's own, or had
// no room in the tables of places.
func expectFunctions(t *testing.T, c *allocs.Counts) {
	t.Helper()
	unknown := uint64(0)
	for _, row := range c.By(allocs.ByFunction) {
		if row.Frame.Func == "" || strings.HasPrefix(row.Frame.Func, "runtime.") {
			t.Logf("%q: %d bytes", row.Frame.Func, row.Bytes)
			unknown += row.Bytes
		}
	}
	t.Logf("%d of %d bytes by unknown functions", unknown, c.Total.Bytes)
	if unknown > c.Total.Bytes/10 {
		t.Errorf("%d of %d bytes are of unknown functions", unknown, c.Total.Bytes)
	}
}
