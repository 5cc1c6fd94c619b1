//go:build loupe_glti

package glti

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tracedPatched runs a script while events are registered, and during an execution trace. It returns the events, and those in the trace, that happened in
// the script.
func tracedPatched(t *testing.T, script func(), events ...Event) (own, truth *recorder) {
	t.Helper()
	if why := traceable(runtime.Version()); why != "" {
		t.Skip(why)
	}
	env := patchedEnv(t)
	own, truth = &recorder{}, &recorder{}
	for _, ev := range events {
		if _, err := env.Trace.Handle(ev, own.add); err != nil {
			t.Fatal(err)
		}
	}
	var list []*generation
	s := splitter{done: func(g *generation) { list = append(list, g) }}
	if err := trace.Start(&s); err != nil {
		t.Fatal(err)
	}
	begin := Now()
	script()
	end := Now()
	trace.Stop()
	s.finish()
	env.Trace.Flush()
	env.Close()
	model := newTraceModel(truth.add)
	for _, g := range list {
		if err := model.convert(g, func(Record) {}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*recorder{own, truth} {
		c.mu.Lock()
		c.records = slices.DeleteFunc(c.records, func(r Record) bool { return r.Time < begin || r.Time > end })
		c.mu.Unlock()
	}
	return own, truth
}

// TestPatchedTraceGoroutines compares the events of goroutines with an execution trace of the same time.
func TestPatchedTraceGoroutines(t *testing.T) {
	runtime.GC() // in the script, the sweeper would start for nearly each span
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	events := []Event{EvGoCreate, EvGoStart, EvGoStartLocal, EvGoUnblock, EvGoUnblockLocal, EvGoSysCall, EvGoSysExit, EvGoSysExitLocal, EvGoSysBlock, EvGoEnd}
	var script []G
	own, truth := tracedPatched(t, func() { script = runPatched(t) }, events...)
	for _, ev := range events {
		total := 0
		for _, g := range script {
			same := func(r Record) bool { return r.G.ID == g.ID }
			a, b := own.of(ev, same), truth.of(ev, same)
			if len(a) != len(b) {
				t.Errorf("%s of %s: %d, in the trace %d", ev, g, len(a), len(b))
			}
			total += len(b)
		}
		if total == 0 {
			t.Errorf("%s: no event", ev)
		}
	}
}

// runPatched does what causes events of goroutines, and returns those that begin and end in it.
func runPatched(t *testing.T) (all []G) {
	r, w := pipe(t)
	in, out := int(r.Fd()), int(w.Fd())
	for i := 0; i < 5; i++ {
		g := blocked(t, "syscall", func() { syscall.Read(in, make([]byte, 1)) })
		time.Sleep(15 * time.Millisecond) // the runtime takes the processor after 10 ms at most
		syscall.Write(out, []byte{1})
		ended(g)
		all = append(all, g)
	}
	ch := make(chan int)
	for i := 0; i < 4; i++ {
		all = append(all, started(func() {
			for range ch {
				syscall.Close(-1)
			}
		}))
	}
	send := func() {
		for i := 0; i < 200; i++ {
			ch <- i
		}
	}
	send()
	restore := oneProc()
	send()
	restore()
	close(ch)
	for _, g := range all {
		ended(g)
	}
	return all
}

// TestPatchedTraceCollector compares what is swept, the labels of workers, and the events of processors, with an execution trace of the same time.
func TestPatchedTraceCollector(t *testing.T) {
	var own, truth *recorder
	for try := 0; try < 10; try++ {
		runtime.GC() // so that nothing is swept before the script
		own, truth = tracedPatched(t, func() {
			for i := 0; i < 3; i++ {
				var list [][]byte
				for j := 0; j < 20_000; j++ {
					list = append(list, make([]byte, 16+j%500))
				}
				patchedSink = list[1]
				runtime.GC()
			}
		}, EvProcStart, EvProcStop, EvGCSweepStart, EvGCSweepDone, EvGoStartLabel)
		if swept(truth)[0] > 0 { // the background sweeper may leave nothing to the script
			break
		}
	}
	if a, b := swept(own), swept(truth); a != b || b[0] == 0 {
		t.Errorf("sweeps, bytes swept and reclaimed, begins: %d, in the trace %d", a, b)
	}
	if a, b := workers(own), workers(truth); !reflect.DeepEqual(a, b) || len(b) == 0 {
		t.Errorf("labels: %v, in the trace %v", a, b)
	}
	for _, ev := range []Event{EvProcStart, EvProcStop} {
		a, b := len(own.of(ev, nil)), len(truth.of(ev, nil))
		if d := a - b; d < -3 || d > 3 || b == 0 { // some are at the begin or at the end
			t.Errorf("%s: %d, in the trace %d", ev, a, b)
		}
	}
	for _, r := range own.of(EvProcStart, nil) {
		if r.P.Addr == 0 || r.P.ID < 0 || r.Args != [2]uint64{} {
			t.Errorf("%+v", r)
		}
	}
}

// swept returns the numbers of ends, of bytes swept and reclaimed, and of begins.
func swept(c *recorder) (s [4]uint64) {
	for _, r := range c.of(EvGCSweepDone, nil) {
		s[0]++
		s[1] += r.Args[0]
		s[2] += r.Args[1]
	}
	s[3] = uint64(len(c.of(EvGCSweepStart, nil)))
	return s
}

// workers returns how often each worker of the collector started with each label.
func workers(c *recorder) map[string]int {
	count := map[string]int{}
	for _, r := range c.of(EvGoStartLabel, nil) {
		count[fmt.Sprint(r.G.ID, r.Text[0])]++
	}
	return count
}

// TestPatchedStates registers for goroutines that wait, or are in a system call.
func TestPatchedStates(t *testing.T) {
	never := make(chan int)
	waits := blocked(t, "chan receive", func() { <-never })
	r, w := pipe(t)
	fd := int(r.Fd()) // and makes it blocking
	calls := blocked(t, "syscall", func() { syscall.Read(fd, make([]byte, 1)) })
	for i := 0; i < 300; i++ { // more than the first list has room for
		go func() { <-never }()
	}
	self := current()
	for i := 0; i < 2; i++ {
		env := patchedEnv(t)
		var got recorder
		for _, ev := range []Event{EvGoWaiting, EvGoInSyscall} {
			if _, err := env.Trace.Handle(ev, got.add); err != nil {
				t.Fatal(err)
			}
		}
		for _, test := range []struct {
			ev   Event
			g    G
			want int
		}{{EvGoWaiting, waits, 1}, {EvGoWaiting, calls, 0}, {EvGoWaiting, self, 0}, {EvGoInSyscall, calls, 1}, {EvGoInSyscall, waits, 0}, {EvGoInSyscall, self, 0}} {
			if list := got.ofG(test.ev, test.g); len(list) != test.want || len(list) > 0 && (list[0].Late || list[0].Time == 0) {
				t.Errorf("%s of %s: %+v, expected %d", test.ev, test.g, list, test.want)
			}
		}
		env.Close()
	}
	close(never)
	w.Write([]byte{1})
}

// TestPatchedStrings annotates, and compares the strings with the annotations.
func TestPatchedStrings(t *testing.T) {
	env := patchedEnv(t)
	var mu sync.Mutex
	var got []string
	if err := env.Trace.RegisterTraceEvString(func(_ int64, s string) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, s)
	}); err != nil {
		t.Fatal(err)
	}
	annotate := func() {
		ctx, task := trace.NewTask(context.Background(), "task")
		trace.WithRegion(ctx, "region", func() { trace.Log(ctx, "", "value") })
		trace.StartRegion(ctx, "started").End()
		trace.Logf(ctx, "key", "%d", 4711)
		task.End()
	}
	annotate()
	annotate()
	want := "task region value started key 4711"
	if list := strings.Join(got, " "); list != want {
		t.Errorf("%q, expected %q", list, want)
	}
	other := patchedEnv(t)
	known := map[string]bool{}
	if err := other.Trace.RegisterTraceEvString(func(_ int64, s string) { known[s] = true }); err != nil {
		t.Fatal(err)
	}
	if len(known) != 6 || !known["4711"] {
		t.Errorf("the strings that a second agent gets are %v", known)
	}
}
