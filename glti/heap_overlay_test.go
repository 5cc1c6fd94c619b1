//go:build loupe_glti

package glti

import (
	"math"
	"runtime"
	"testing"
	"time"
)

//go:noinline
func allocateHere(n, size int) (kept [][]byte) {
	kept = make([][]byte, n)
	for i := range kept {
		kept[i] = make([]byte, size)
	}
	return kept
}

// here adds up the records of objects of a size that allocateHere has allocated.
func here(records []MemProfileRecord, size int64) (sum MemProfileRecord) {
	for _, r := range records {
		if r.AllocObjects > 0 && r.AllocBytes/r.AllocObjects == size && waiter(r.Stack()) == "github.com/loupe-go/loupe/glti.allocateHere" {
			sum.AllocObjects += r.AllocObjects
			sum.AllocBytes += r.AllocBytes
			sum.FreeObjects += r.FreeObjects
			sum.FreeBytes += r.FreeBytes
			sum.GP = r.GP
		}
	}
	return sum
}

// appHere adds up the records of the application's own profile.
func appHere(size int64) MemProfileRecord {
	var records []MemProfileRecord
	for _, r := range grown(func(p []runtime.MemProfileRecord) (int, bool) { return runtime.MemProfile(p, true) }) {
		records = append(records, MemProfileRecord{MemProfileRecord: r})
	}
	return here(records, size)
}

func heapOf(t *testing.T, rate int) (*GLTIEnv, *[]MemProfileRecord) {
	t.Helper()
	env := patchedEnv(t)
	records := new([]MemProfileRecord)
	if err := env.Profiler.RegisterPprofHeapProfileHandler(rate, func(list []MemProfileRecord) { *records = list }); err != nil {
		t.Fatal(err)
	}
	return env, records
}

// collect makes the garbage collector free what is garbage.
func collect() {
	for i := 0; i < 3; i++ {
		runtime.GC()
	}
}

// TestPatchedHeap compares profiles with what was allocated, and the application's with what it asked for.
func TestPatchedHeap(t *testing.T) {
	old := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = old }()
	runtime.MemProfileRate = 0
	collect() // the application's profile is one of the last collection
	const n, size, class = 20_000, 1000, 1024
	before, beforeLarge := appHere(class), appHere(3*class)
	all, allRecords := heapOf(t, 1)
	some, someRecords := heapOf(t, 1<<16)
	snapshots := func() (MemProfileRecord, MemProfileRecord) {
		all.Profiler.Snapshot()
		some.Profiler.Snapshot()
		return here(*allRecords, class), here(*someRecords, class)
	}
	kept := allocateHere(n, size)
	every, sampled := snapshots()
	if every.AllocObjects != n || every.AllocBytes != n*class || every.FreeObjects != 0 || every.GP != all.GetG() {
		t.Errorf("at rate 1: %+v of %v, expected %d objects of %v", every.MemProfileRecord, every.GP, n, all.GetG())
	}
	mean := n * (1 - math.Exp(-class/float64(1<<16)))
	if got := float64(sampled.AllocObjects); math.Abs(got-mean) > 6*math.Sqrt(mean) {
		t.Errorf("at rate %d: %v samples, expected about %v", 1<<16, got, mean)
	}
	// The runtime samples an object of each processor when it notices that the rate was changed.
	if app := appHere(class); app.AllocObjects > before.AllocObjects+int64(runtime.GOMAXPROCS(0)) || runtime.MemProfileRate != 0 {
		t.Errorf("the application asked for no profile, and has %d objects more at rate %d", app.AllocObjects-before.AllocObjects, runtime.MemProfileRate)
	}
	runtime.KeepAlive(kept)
	kept = nil
	for i := 0; i < 100; i++ { // what the stack of an earlier call contains can keep an object
		collect()
		if every, sampled = snapshots(); every.FreeObjects == n {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if every.FreeObjects < n-1 || every.FreeBytes != every.FreeObjects*class || sampled.AllocObjects-sampled.FreeObjects > 1 {
		t.Errorf("%d objects are free of %d, and %d of %d samples", every.FreeObjects, n, sampled.FreeObjects, sampled.AllocObjects)
	}
	runtime.MemProfileRate = 1
	allocateHere(n, 3*size)
	collect()
	all.Profiler.Snapshot()
	app, agent := appHere(3*class), here(*allRecords, 3*class)
	app.AllocObjects -= beforeLarge.AllocObjects
	app.FreeObjects -= beforeLarge.FreeObjects
	if app.AllocObjects != n || agent.AllocObjects != n || app.FreeObjects != agent.FreeObjects {
		t.Errorf("the application has %d objects and %d of them free, the agent %d and %d, expected %d objects",
			app.AllocObjects, app.FreeObjects, agent.AllocObjects, agent.FreeObjects, n)
	}
	if runtime.MemProfileRate != 1 {
		t.Errorf("the application's rate is %d, expected 1", runtime.MemProfileRate)
	}
}

// TestPatchedHeapBegin checks that a profile begins empty, also if an earlier one had its place.
func TestPatchedHeapBegin(t *testing.T) {
	const n, size, class = 1000, 3000, 3072
	first, _ := heapOf(t, 1)
	old := allocateHere(n, size)
	first.Close()
	allocateHere(n, size) // for nobody
	second, records := heapOf(t, 1)
	runtime.KeepAlive(old)
	old = nil
	collect()
	second.Profiler.Snapshot()
	if sum := here(*records, class); sum != (MemProfileRecord{}) {
		t.Errorf("a new profile has %+v", sum.MemProfileRecord)
	}
	allocateHere(n, size)
	second.Profiler.Snapshot()
	if sum := here(*records, class); sum.AllocObjects != n {
		t.Errorf("%d objects, expected %d", sum.AllocObjects, n)
	}
	var open []*GLTIEnv
	for len(open) < maxAgents-1 {
		env, _ := heapOf(t, 1)
		open = append(open, env)
	}
	if err := second.Profiler.RegisterPprofHeapProfileHandler(1, func([]MemProfileRecord) {}); err == nil {
		t.Error("a ninth profile is open")
	}
	for _, env := range open {
		env.Close()
	}
}

// TestPatchedHeapStorm allocates in many goroutines while agents come and go and the garbage collector runs.
func TestPatchedHeapStorm(t *testing.T) {
	end := make(chan bool)
	done := make(chan int)
	for i := 0; i < 4; i++ {
		go func(i int) {
			n := 0
			for {
				select {
				case <-end:
					done <- n
					return
				default:
					n += len(allocateHere(100, 16<<(i*3)))
					p := new([2]*int)
					runtime.SetFinalizer(p, func(*[2]*int) {})
				}
			}
		}(i)
	}
	for i := 0; i < 10; i++ {
		a, _ := heapOf(t, 1)
		b, records := heapOf(t, 512)
		a.Profiler.Snapshot()
		runtime.GC()
		a.Close()
		b.Profiler.Snapshot()
		for _, r := range *records {
			if r.FreeObjects > r.AllocObjects || r.AllocObjects < 0 {
				t.Errorf("%d objects were freed, %d allocated", r.FreeObjects, r.AllocObjects)
			}
		}
		b.Close()
	}
	close(end)
	for i := 0; i < 4; i++ {
		<-done
	}
}
