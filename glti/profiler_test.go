package glti

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// names returns the functions of a stack, leaf first.
func names(stack []uintptr) (list []string) {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		list = append(list, plainName(frame.Function))
		if !more {
			return list
		}
	}
}

// has reports whether one of the stacks contains a function of this package.
func has(stacks [][]uintptr, function string) bool {
	for _, stack := range stacks {
		for _, name := range names(stack) {
			if strings.HasSuffix(name, "/glti."+function) {
				return true
			}
		}
	}
	return false
}

func stacksOf(records []StackRecord) (stacks [][]uintptr) {
	for i := range records {
		stacks = append(stacks, records[i].Stack())
	}
	return stacks
}

func blockStacks(records []BlockProfileRecord) (stacks [][]uintptr) {
	for i := range records {
		stacks = append(stacks, records[i].Stack())
	}
	return stacks
}

// burn takes some hundred milliseconds of processor time.
//
//go:noinline
func burn() {
	n := 0
	for i := 0; i < 200_000; i++ {
		n += inlinedBurn(n)
	}
	burned.Add(int64(n))
}

var burned atomic.Int64

func inlinedBurn(n int) int {
	for i := 0; i < 1000; i++ {
		n = n*31 + i
	}
	return n
}

//go:noinline
func blockHere() {
	ch := make(chan int)
	here := current()
	go func() {
		for stateOf(here) != "chan receive" {
			time.Sleep(time.Millisecond)
		}
		close(ch)
	}()
	<-ch
}

//go:noinline
func contend() {
	var mu sync.Mutex
	mu.Lock()
	g := started(func() { lockOnce(&mu) })
	for !strings.Contains(stateOf(g), "s") { // semacquire or sync.Mutex.Lock
		time.Sleep(time.Millisecond)
	}
	mu.Unlock()
	ended(g)
}

// stateOf returns the state of a goroutine that waits, "" if it does not wait.
func stateOf(g G) string {
	buf := make([]byte, 1<<20)
	_, rest, _ := strings.Cut(string(buf[:runtime.Stack(buf, true)]), fmt.Sprintf("goroutine %d [", g.ID))
	state, _, _ := strings.Cut(rest, "]")
	if strings.HasPrefix(state, "run") {
		return ""
	}
	return state
}

var kept [][]byte

//go:noinline
func allocate() { kept = append(kept, make([]byte, 8<<20)) }

// quietEnv returns an environment whose handlers are called for Snapshot alone.
func quietEnv(name string) *GLTIEnv {
	env := NewEnv(name)
	env.Profiler.SetInterval(time.Hour)
	return env
}

func TestBlockProfile(t *testing.T) {
	failOnReport(t)
	env := quietEnv("block")
	defer env.Close()
	var got []BlockProfileRecord
	if err := env.Profiler.RegisterPprofBlockProfileHandler(1, func(r []BlockProfileRecord) { got = r }); err != nil {
		t.Fatal(err)
	}
	blockHere()
	env.Profiler.Snapshot()
	if !has(blockStacks(got), "blockHere") {
		t.Errorf("no stack of blockHere in %d records", len(got))
	}
	// Reading again is the same truth as the runtime's own.
	want, _ := runtime.BlockProfile(nil)
	if env.Profiler.Snapshot(); len(got) < want {
		t.Errorf("%d records, want %d", len(got), want)
	}
}

func TestMutexProfile(t *testing.T) {
	failOnReport(t)
	env := quietEnv("mutex")
	defer env.Close()
	var got []BlockProfileRecord
	if err := env.Profiler.RegisterPprofMutexProfileHandler(1, func(r []BlockProfileRecord) { got = r }); err != nil {
		t.Fatal(err)
	}
	contend()
	env.Profiler.Snapshot()
	if !has(blockStacks(got), "contend") {
		t.Errorf("no stack of contend in %d records", len(got))
	}
	if n := runtime.SetMutexProfileFraction(-1); n != 1 {
		t.Errorf("fraction %d, want 1", n)
	}
	env.Close()
	if n := runtime.SetMutexProfileFraction(-1); n != 0 {
		t.Errorf("fraction %d after Close", n)
	}
}

func TestHeapProfile(t *testing.T) {
	failOnReport(t)
	env := quietEnv("heap")
	defer env.Close()
	var got []MemProfileRecord
	if err := env.Profiler.RegisterPprofHeapProfileHandler(512<<10, func(r []MemProfileRecord) { got = r }); err != nil {
		t.Fatal(err)
	}
	allocate()
	runtime.GC() // the profile is as of the last completed collection but one
	runtime.GC()
	env.Profiler.Snapshot()
	for _, r := range got {
		if has([][]uintptr{r.Stack()}, "allocate") {
			if n := int64(len(kept)); r.AllocBytes != n<<23 || r.AllocObjects != n {
				t.Errorf("allocate: %d bytes in %d objects", r.AllocBytes, r.AllocObjects)
			}
			return
		}
	}
	t.Errorf("no stack of allocate in %d records", len(got))
}

func TestGoroutineProfile(t *testing.T) {
	failOnReport(t)
	env := quietEnv("goroutines")
	defer env.Close()
	stop := make(chan int)
	defer close(stop)
	for i := 0; i < 20; i++ {
		blocked(t, "chan receive", func() { waitHere(stop) })
	}
	count := func(rate int) (n int) {
		err := env.Profiler.RegisterPprofGoroutineProfileHandler(rate, func(r []StackRecord) {
			for _, stack := range stacksOf(r) {
				if has([][]uintptr{stack}, "waitHere") {
					n++
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		env.Profiler.Snapshot()
		env.Profiler.Unregister(GoroutineProfile)
		return n
	}
	if all := count(1); all != 20 {
		t.Errorf("%d goroutines, want 20", all)
	}
	if some := count(5); some > 6 || some == 0 {
		t.Errorf("%d of 20 goroutines with rate 5", some)
	}
}

//go:noinline
func waitHere(stop chan int) { <-stop }

func TestThreadCreationProfile(t *testing.T) {
	failOnReport(t)
	env := quietEnv("threads")
	defer env.Close()
	var total, calls int
	err := env.Profiler.RegisterPprofThreadCreationProfileHandler(1, func(r []StackRecord) { total += len(r); calls++ })
	if err != nil {
		t.Fatal(err)
	}
	env.Profiler.Snapshot()
	before, first := total, calls
	var locked sync.WaitGroup
	stop := make(chan int)
	for i := 0; i < 10; i++ { // each needs a thread of its own
		locked.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			locked.Done()
			<-stop
		}()
	}
	locked.Wait()
	env.Profiler.Snapshot()
	close(stop)
	threads, _ := runtime.ThreadCreateProfile(nil)
	if first != 1 || total < 10 || total > threads || total < before {
		t.Errorf("%d threads in %d calls, then %d; the program has %d", before, first, total, threads)
	}
}

// TestThinnedStacks checks that one in n records is kept, over several snapshots.
func TestThinnedStacks(t *testing.T) {
	for rate := 1; rate < 8; rate++ {
		skip, got, n := 0, 0, 0
		for _, created := range []int{1, 0, 5, 2, 13, 1} {
			got += len(stackRecords(make([]runtime.StackRecord, created), rate, skip))
			skip = ((skip-created)%rate + rate) % rate
			n += created
		}
		if want := (n + rate - 1) / rate; got != want {
			t.Errorf("rate %d: %d records of %d, want %d", rate, got, n, want)
		}
	}
}

func TestCPUProfile(t *testing.T) {
	failOnReport(t)
	env := quietEnv("cpu")
	other := quietEnv("other")
	defer env.Close()
	defer other.Close()
	var full, half [][]uintptr
	if err := env.Profiler.RegisterPprofCpuProfileHandler(100, func(r []StackRecord) { full = append(full, stacksOf(r)...) }); err != nil {
		t.Fatal(err)
	}
	if err := other.Profiler.RegisterPprofCpuProfileHandler(50, func(r []StackRecord) { half = append(half, stacksOf(r)...) }); err != nil {
		t.Fatal(err)
	}
	for len(full) < 20 {
		burn()
		env.Profiler.Snapshot()
		other.Profiler.Snapshot()
	}
	env.Profiler.Snapshot()
	other.Profiler.Snapshot()
	if !has(full, "burn") || !has(half, "burn") || !has(full, "inlinedBurn") {
		t.Error("functions are missing")
	}
	if len(half) > len(full)/2+5 || len(half) < len(full)/2-5 { // the last snapshots are not of the same time
		t.Errorf("%d samples at 100 a second, %d at 50", len(full), len(half))
	}
}

// TestCPUApplicationFirst checks that the agent waits while the application has a profile.
func TestCPUApplicationFirst(t *testing.T) {
	failOnReport(t)
	var own bytes.Buffer
	if err := pprof.StartCPUProfile(&own); err != nil {
		t.Fatal(err)
	}
	env := quietEnv("cpu")
	defer env.Close()
	n := 0
	if err := env.Profiler.RegisterPprofCpuProfileHandler(100, func(r []StackRecord) { n += len(r) }); err != nil {
		t.Fatal(err)
	}
	burn()
	env.Profiler.Snapshot()
	if n > 0 {
		t.Errorf("%d samples during the application's profile", n)
	}
	pprof.StopCPUProfile()
	if samples, err := parseProfile(&own); err != nil || len(samples) == 0 {
		t.Errorf("the application's profile has %d samples: %v", len(samples), err)
	}
	env.Profiler.Snapshot()
	for n == 0 {
		burn()
		env.Profiler.Snapshot()
	}
}

// TestInlinedFrames compares the stacks that agents get with those in the profile.
func TestInlinedFrames(t *testing.T) {
	var table frameTable
	inlined := 0
	for inlined == 0 {
		var buf bytes.Buffer
		if err := pprof.StartCPUProfile(&buf); err != nil {
			t.Fatal(err)
		}
		burn()
		pprof.StopCPUProfile()
		samples, err := parseProfile(&buf)
		if err != nil {
			t.Fatal(err)
		}
		for i := range samples {
			var want []string
			for _, loc := range samples[i].stack {
				for _, line := range loc.lines {
					want = append(want, plainName(line.function))
				}
				inlined += max(len(loc.lines)-1, 0)
			}
			record := table.record(&samples[i])
			if got := names(record.Stack()); !reflect.DeepEqual(got, want[:min(len(want), len(record.Stack0))]) {
				t.Errorf("stack %q, want %q", got, want)
			}
		}
	}
}

func TestProfileErrors(t *testing.T) {
	env := NewEnv("errors")
	defer env.Close()
	if err := env.Profiler.RegisterPprofCpuProfileHandler(cpuHz+1, func([]StackRecord) {}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("rate above the maximum: %v", err)
	}
	if err := env.Profiler.RegisterPprofHeapProfileHandler(0, func([]MemProfileRecord) {}); err == nil {
		t.Error("rate 0: no error")
	}
	if err := env.Profiler.RegisterPprofMutexProfileHandler(1, nil); err == nil {
		t.Error("nil callback: no error")
	}
	var none ProfilerEnv
	if err := none.RegisterPprofMutexProfileHandler(1, func([]BlockProfileRecord) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("environment without NewEnv: %v", err)
	}
	none.Snapshot()
	none.SetInterval(time.Second)
	none.Unregister(HeapProfile)
}

// TestProfileHandlerPanics checks that a handler that panics is disabled, and does not stop others or Snapshot.
func TestProfileHandlerPanics(t *testing.T) {
	reports := collectReports(t)
	env := quietEnv("panics")
	defer env.Close()
	bad, good := 0, 0
	for _, f := range []func([]StackRecord){
		func([]StackRecord) { bad++; panic("bad") },
		func([]StackRecord) { bad++; runtime.Goexit() },
		func([]StackRecord) { good++ },
	} {
		if err := env.Profiler.RegisterPprofGoroutineProfileHandler(1, f); err != nil {
			t.Fatal(err)
		}
	}
	env.Profiler.Snapshot()
	env.Profiler.Snapshot()
	env.Profiler.SetInterval(time.Hour)
	if bad != 2 || good != 2 || len(reports()) != 2 {
		t.Errorf("%d calls of bad handlers, %d of the good one, %d reports", bad, good, len(reports()))
	}
}

// TestInterval checks that handlers are called without Snapshot.
func TestInterval(t *testing.T) {
	env := NewEnv("interval")
	defer env.Close()
	calls := make(chan int)
	done := make(chan int)
	defer close(done)
	err := env.Profiler.RegisterPprofGoroutineProfileHandler(1, func([]StackRecord) {
		select {
		case calls <- 1:
		case <-done:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	env.Profiler.SetInterval(time.Millisecond)
	for i := 0; i < 3; i++ {
		<-calls
	}
}

// TestRates checks whose rate is set when agents and the application want one.
func TestRates(t *testing.T) {
	value := 0 // as the runtime has it: in another unit
	set := func(rate int) { value = rate * 3 }
	known := &rateControl{get: func() (int, bool) { return value, true }, set: set}
	for i, step := range []struct {
		do   func()
		want int
	}{
		{func() { known.add(100) }, 300},
		{func() { known.add(50) }, 150},
		{func() { known.remove(50) }, 300},
		{func() { set(7); known.apply() }, 21}, // the application wins
		{func() { known.add(10) }, 21},
		{func() { set(0); known.apply() }, 30}, // and ends its profile
		{func() { known.remove(10) }, 300},
		{func() { known.remove(100) }, 0},
		{func() { set(7); known.add(1); known.remove(1) }, 21},
	} {
		if step.do(); value != step.want {
			t.Errorf("step %d: rate %d, want %d", i, value, step.want)
		}
	}
	value = 0
	used := true
	unknown := &rateControl{get: func() (int, bool) { return 0, false }, set: set, unknown: func() bool { return used }}
	if unknown.add(5); value != 0 {
		t.Errorf("rate %d although the application uses the profile", value)
	}
	used = false
	if unknown.add(4); value != 12 {
		t.Errorf("rate %d, want 12", value)
	}
	unknown.remove(4)
	unknown.remove(5)
	if value == 0 {
		t.Error("the rate was set to 0, although the application may have set it")
	}
}
