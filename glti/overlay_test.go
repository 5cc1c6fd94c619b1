//go:build loupe_glti

package glti

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"
)

// These tests run with the patched runtime: `loupe go test -run TestPatched`, as package overlay does.

func patchedEnv(t *testing.T) *GLTIEnv {
	t.Helper()
	SetReportHandler(func(r Report) { t.Errorf("report: %s", r) })
	t.Cleanup(func() { SetReportHandler(nil) })
	env := NewEnv(t.Name())
	t.Cleanup(env.Close)
	return env
}

func TestPatchedCapabilities(t *testing.T) {
	if BuiltBy() != "loupe go" {
		t.Errorf("built by %q", BuiltBy())
	}
	env := patchedEnv(t)
	for _, c := range env.Capabilities() {
		if ev := eventOf(c.Method); ev != 0 && !events[ev].never {
			r, err := env.Trace.Handle(ev, func(Record) {})
			if (err == nil) != c.Available {
				t.Errorf("%s: Handle returned %v", c, err)
			}
			if err == nil {
				r.Unregister()
			}
		}
	}
}

// eventOf returns the event of a Register method, 0 for other methods.
func eventOf(method string) Event {
	for _, ev := range Events() {
		if ev.method() == method {
			return ev
		}
	}
	return 0
}

// TestPatchedLife compares the events of goroutines with the goroutines that exist.
func TestPatchedLife(t *testing.T) {
	env := patchedEnv(t)
	var mu sync.Mutex
	created, ended := map[G]G{}, map[G]bool{} // created: by whom
	for ev, f := range map[Event]func(Record){
		EvGoCreate: func(r Record) { created[r.G] = r.By },
		EvGoEnd:    func(r Record) { ended[r.G] = true },
	} {
		f := f
		if _, err := env.Trace.Handle(ev, func(r Record) {
			mu.Lock()
			defer mu.Unlock()
			f(r)
		}); err != nil {
			t.Fatal(err)
		}
	}
	self := env.GetG().(G)
	var wg sync.WaitGroup
	all := make(chan G, 100)
	for i := 0; i < cap(all); i++ {
		wg.Add(1)
		go func() { defer wg.Done(); all <- env.GetG().(G) }()
	}
	wg.Wait()
	close(all)
	for i := 0; i < 5000; i++ { // until the last has ended
		env.Trace.Flush()
		mu.Lock()
		n := len(ended)
		mu.Unlock()
		if n >= cap(all) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	mu.Lock()
	defer mu.Unlock()
	for g := range all {
		if created[g] != self {
			t.Errorf("%s was created by %s, expected %s", g, created[g], self)
		}
		if !ended[g] {
			t.Errorf("%s has not ended", g)
		}
	}
}

func TestPatchedGls(t *testing.T) {
	env, other := patchedEnv(t), patchedEnv(t)
	self := env.GetG()
	env.SetGls(self, "object")
	env.SetGlsPtr(self, 7)
	if got := env.GetGls(self); got != "object" {
		t.Errorf("object %v", got)
	}
	if got := env.GetGlsPtr(self); got != 7 {
		t.Errorf("address %d", got)
	}
	if other.GetGls(self) != nil || other.GetGlsPtr(self) != 0 {
		t.Error("another agent has the same storage")
	}
	var ended interface{}
	done := make(chan bool)
	go func() {
		ended = env.GetG()
		if env.GetGls(ended) != nil || env.GetGlsPtr(ended) != 0 {
			t.Error("a new goroutine has storage")
		}
		env.SetGls(ended, 1)
		runtime.GC()
		if env.GetGls(ended) != 1 {
			t.Error("the object is gone")
		}
		close(done)
	}()
	<-done
	for i := 0; i < 5000 && env.GetGls(ended) != nil; i++ {
		time.Sleep(time.Millisecond)
	}
	if got := env.GetGls(ended); got != nil {
		t.Errorf("a goroutine that has ended has %v", got)
	}
}

func TestPatchedUser(t *testing.T) {
	env := patchedEnv(t)
	var got []string
	add := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var first uint64
	add(env.Trace.RegisterTraceEvUserTaskCreate(func(ts int64, id, parent uint64, name string) {
		first = id
		got = append(got, fmt.Sprint("create ", parent, name))
	}))
	add(env.Trace.RegisterTraceEvUserTaskEnd(func(ts int64, id uint64) { got = append(got, fmt.Sprint("end ", id == first)) }))
	add(env.Trace.RegisterTraceEvUserRegion(func(ts int64, id uint64, mode uint8, name string) {
		got = append(got, fmt.Sprintf("region %t %d %s", id == first, mode, name))
	}))
	add(env.Trace.RegisterTraceEvUserLog(func(ts int64, id uint64, key, value string) {
		got = append(got, fmt.Sprint("log ", id == first, key, value))
	}))
	ctx, task := trace.NewTask(context.Background(), "task")
	r := trace.StartRegion(ctx, "region")
	trace.Logf(ctx, "key", "value %d", 1)
	r.End()
	task.End()
	want := []string{"create 0task", "region true 0 region", "log truekeyvalue 1", "region true 1 region", "end true"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, expected %q", got, want)
	}
}

//go:noinline
func patchedBlock() G {
	c := make(chan bool)
	go func() {
		for {
			select {
			case c <- true:
				return
			default: // nobody waits yet
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	<-c
	return impl.current()
}

// waiter returns the innermost function of a stack that is not the runtime's.
func waiter(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") || !more {
			return f.Function
		}
	}
}

func TestPatchedBlock(t *testing.T) {
	env := patchedEnv(t)
	var blocks []BlockProfileRecord
	if err := env.Profiler.RegisterPprofBlockProfileHandler(1, func(list []BlockProfileRecord) { blocks = list }); err != nil {
		t.Fatal(err)
	}
	const times = 20
	var g G
	for i := 0; i < times; i++ {
		g = patchedBlock()
	}
	env.Profiler.Snapshot()
	var count int64
	for _, r := range blocks {
		if waiter(r.Stack()) == "github.com/loupe-go/loupe/glti.patchedBlock" {
			count += r.Count
			if r.GP != g {
				t.Errorf("the goroutine is %v, expected %v", r.GP, g)
			}
			if r.Cycles <= 0 {
				t.Errorf("%d ticks", r.Cycles)
			}
		}
	}
	if count != times {
		t.Errorf("%d waits, expected %d", count, times)
	}
	if n, _ := runtime.BlockProfile(nil); n != 0 {
		t.Errorf("the application's profile has %d records", n)
	}
}

// TestPatchedCPU profiles with two agents and as an application.
func TestPatchedCPU(t *testing.T) {
	slow, fast := patchedEnv(t), patchedEnv(t)
	var slows, fasts, hot int
	var g G
	if err := slow.Profiler.RegisterPprofCpuProfileHandler(50, func(list []StackRecord) { slows += len(list) }); err != nil {
		t.Fatal(err)
	}
	if err := fast.Profiler.RegisterPprofCpuProfileHandler(100, func(list []StackRecord) {
		fasts += len(list)
		for _, r := range list {
			if r.GP == g {
				hot++
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	g = slow.GetG().(G)
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		t.Errorf("the application cannot profile: %v", err)
	}
	for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
	}
	pprof.StopCPUProfile()
	for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
	}
	slow.Profiler.Snapshot()
	fast.Profiler.Snapshot()
	if fasts == 0 || slows < fasts/2-5 || slows > fasts/2+1 {
		t.Errorf("%d samples at 100 Hz and %d at 50 Hz", fasts, slows)
	}
	if hot < fasts*3/4 {
		t.Errorf("%d of %d samples are of the goroutine that ran", hot, fasts)
	}
	if out.Len() == 0 {
		t.Error("the application's profile is empty")
	}
}

func TestPatchedAllocs(t *testing.T) {
	env, other := patchedEnv(t), patchedEnv(t)
	if err := env.CountAllocs(true); err != nil {
		t.Fatal(err)
	}
	if err := other.CountAllocs(true); err != nil {
		t.Fatal(err)
	}
	env.CountAllocs(false) // other still counts
	self := env.GetG()
	allocate := func() Allocations {
		before, _ := env.Allocs(self)
		for i := 0; i < 1000; i++ {
			patchedSink = make([]byte, 1000)
		}
		after, ok := env.Allocs(self)
		if !ok {
			t.Error("the current goroutine is unknown")
		}
		return Allocations{after.Bytes - before.Bytes, after.Objects - before.Objects}
	}
	if got, want := allocate(), (Allocations{1024 * 1000, 1000}); got != want {
		t.Errorf("%+v, expected %+v", got, want)
	}
	ended := env.AllocsEnded()
	var gone interface{}
	done := make(chan bool)
	go func() {
		gone = env.GetG()
		patchedSink = make([]byte, 1<<20)
		close(done)
	}()
	<-done
	for i := 0; i < 5000; i++ {
		if _, ok := env.Allocs(gone); !ok {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if more := env.AllocsEnded().Bytes - ended.Bytes; more < 1<<20 {
		t.Errorf("goroutines that have ended have allocated %d bytes, one of them 1 MiB", more)
	}
	other.Close()
	if got := allocate(); got != (Allocations{}) {
		t.Errorf("%+v is counted although no agent counts", got)
	}
}

var patchedSink []byte

//go:noinline
func patchedParked(ready chan<- G, end <-chan bool) {
	ready <- impl.current()
	<-end
}

// TestPatchedGoroutines compares goroutine profiles with the goroutines that exist, while others begin and end.
func TestPatchedGoroutines(t *testing.T) {
	env, third := patchedEnv(t), patchedEnv(t)
	var all, some []StackRecord
	if err := env.Profiler.RegisterPprofGoroutineProfileHandler(1, func(list []StackRecord) { all = list }); err != nil {
		t.Fatal(err)
	}
	if err := third.Profiler.RegisterPprofGoroutineProfileHandler(3, func(list []StackRecord) { some = list }); err != nil {
		t.Fatal(err)
	}
	const n = 300
	ready, end, others := make(chan G), make(chan bool), make(chan bool)
	want := map[G]bool{}
	for i := 0; i < n; i++ {
		go patchedParked(ready, end)
		want[<-ready] = true
	}
	go func() {
		for {
			select {
			case <-end:
				close(others)
				return
			default:
				in(func(interface{}) {})
				runtime.GoroutineProfile(make([]runtime.StackRecord, 1000)) // the application's
			}
		}
	}()
	check := func(list []StackRecord) (found int) {
		seen := map[interface{}]bool{}
		for _, r := range list {
			g, ok := r.GP.(G)
			if !ok || seen[g] {
				t.Errorf("goroutine %v of %s, seen before: %t", r.GP, waiter(r.Stack()), seen[g])
			}
			seen[g] = true
			if isOurs := waiter(r.Stack()) == "github.com/loupe-go/loupe/glti.patchedParked"; isOurs != want[g] {
				t.Errorf("%v has the stack of %s", g, waiter(r.Stack()))
			} else if isOurs {
				found++
			}
		}
		return found
	}
	for i := 0; i < 20; i++ {
		env.Profiler.Snapshot()
		third.Profiler.Snapshot()
		if found := check(all); found != n {
			t.Errorf("%d goroutines, expected %d", found, n)
		}
		if found := check(some); found < n/3-20 || found > n/3+20 {
			t.Errorf("%d goroutines of %d at rate 3", found, n)
		}
	}
	close(end)
	<-others
}

// TestPatchedThreads compares the profile of thread creation with that of the runtime.
func TestPatchedThreads(t *testing.T) {
	env := patchedEnv(t)
	var got []StackRecord
	if err := env.Profiler.RegisterPprofThreadCreationProfileHandler(1, func(list []StackRecord) { got = append(got, list...) }); err != nil {
		t.Fatal(err)
	}
	env.Profiler.Snapshot()
	before, _ := runtime.ThreadCreateProfile(nil)
	if len(got) < before-1 { // a thread can be created meanwhile; some may have ended
		t.Errorf("%d threads, expected %d", len(got), before)
	}
	got = nil
	end, locked := make(chan bool), map[G]bool{}
	for i := 0; i < 40; i++ {
		ready := make(chan bool)
		go func() { // needs a thread
			runtime.LockOSThread()
			locked[current()] = true
			close(ready)
			<-end
			runtime.UnlockOSThread()
		}()
		<-ready
	}
	env.Profiler.Snapshot()
	after, _ := runtime.ThreadCreateProfile(nil)
	close(end)
	if want := after - before; len(got) < want-1 || want < 10 {
		t.Errorf("%d new threads, expected %d", len(got), want)
	}
	caused := 0
	for _, r := range got {
		if g, ok := r.GP.(G); ok && locked[g] { // it waits, so its thread lets a new one run the others
			caused++
		}
	}
	if caused == 0 {
		t.Errorf("no goroutine caused a thread: %+v", got)
	}
}
