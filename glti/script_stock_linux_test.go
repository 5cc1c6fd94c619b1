//go:build !loupe_glti

package glti

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"runtime/metrics"
	"runtime/trace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var sink atomic.Pointer[[]byte]

// TestScript runs a program whose events are known, and compares them with what each Register method and Handle deliver.
func TestScript(t *testing.T) {
	requireTracing(t)
	failOnReport(t)
	env := NewEnv("script")
	defer env.Close()
	before := newScenes(t)
	var live recorder
	live.registerAll(t, env)
	env.Trace.Flush() // the goroutines that exist are known now
	begin := Now()
	live.limit(begin)
	s := runScript(t)
	end := Now()
	env.Trace.Flush()
	env.Close()
	c := live.frozen()
	before.check(t, c)
	s.check(t, c)
	checkGC(t, c, s)
	checkUser(t, c, s)
	checkCalls(t, c, begin, end)
	for _, r := range c.records {
		if !r.Late {
			t.Errorf("%s: not late", r.Event)
		}
	}
	for _, r := range c.of(EvUserTaskEnd, nil) { // the clock of the trace has a resolution of 64 ns
		if r.Time < begin-64 || r.Time > end {
			t.Errorf("task ended at %d, not between %d and %d", r.Time, begin, end)
		}
	}
}

// scenes are goroutines that exist before the registration.
type scenes struct{ waiting, syscall G }

func newScenes(t *testing.T) (s scenes) {
	never := make(chan int)
	s.waiting = blocked(t, "chan receive", func() { <-never })
	r, _ := pipe(t)
	fd := int(r.Fd()) // and makes it blocking
	s.syscall = blocked(t, "syscall", func() { syscall.Read(fd, make([]byte, 1)) })
	return s
}

func (s *scenes) check(t *testing.T, c *recorder) {
	for _, test := range []struct {
		ev     Event
		g      G
		others []G
	}{{EvGoWaiting, s.waiting, []G{s.syscall}}, {EvGoInSyscall, s.syscall, []G{s.waiting, current()}}} {
		if n := len(c.ofG(test.ev, test.g)); n != 1 {
			t.Errorf("%s: %d events for the goroutine, want 1", test.ev, n)
		}
		calls := 0
		for _, args := range c.calls[test.ev.String()] {
			if args[1] == any(test.g) {
				calls++
			}
		}
		if calls != 1 {
			t.Errorf("%s: %d calls for the goroutine, want 1", test.ev, calls)
		}
		for _, other := range test.others {
			if n := len(c.ofG(test.ev, other)); n != 0 {
				t.Errorf("%s: %d events for a goroutine in another state", test.ev, n)
			}
		}
	}
}

// script has what the script did.
type script struct {
	main    G
	by      map[Event]G // events that must happen for a goroutine
	created []G         // goroutines that began and ended during the script
	gcs     uint32
}

func runScript(t *testing.T) *script {
	s := &script{main: current(), by: map[Event]G{EvGoSched: current()}}
	s.block(t)
	s.procs(t)
	s.collect()
	s.annotate()
	return s
}

// block makes goroutines block for each reason.
func (s *script) block(t *testing.T) {
	end := func(ev Event, g G) {
		s.by[ev] = g
		s.created = append(s.created, g)
		ended(g)
	}
	ch := make(chan int)
	g := blocked(t, "chan send", func() { ch <- 1 })
	<-ch
	end(EvGoBlockSend, g)
	g = blocked(t, "chan receive", func() { <-ch })
	ch <- 1
	end(EvGoBlockRecv, g)
	s.by[EvGoUnblock], s.by[EvGoEnd], s.by[EvGoStart], s.by[EvGoCreate] = g, g, g, g
	other := make(chan int)
	g = blocked(t, "select", func() {
		select {
		case <-ch:
		case <-other:
		}
	})
	ch <- 1
	end(EvGoBlockSelect, g)
	var mu sync.Mutex
	mu.Lock()
	g = blocked(t, "s", func() { lockOnce(&mu) }) // semacquire or sync.Mutex.Lock
	mu.Unlock()
	end(EvGoBlockSync, g)
	cond := sync.NewCond(&mu)
	g = blocked(t, "sync.Cond.Wait", func() { mu.Lock(); cond.Wait(); mu.Unlock() })
	mu.Lock()
	cond.Signal()
	mu.Unlock()
	end(EvGoBlockCond, g)
	end(EvGoSleep, started(func() { time.Sleep(time.Microsecond) }))
	s.by[EvGoStop] = blocked(t, "select (no cases)", func() { select {} })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g = blocked(t, "IO wait", func() { listener.Accept() })
	listener.Close()
	end(EvGoBlockNet, g)
	runtime.Gosched()
}

// procs makes goroutines lose their processors and get them back.
func (s *script) procs(t *testing.T) {
	r, w := pipe(t)
	in, out := int(r.Fd()), int(w.Fd())
	restore := oneProc()
	var flag atomic.Bool
	go flag.Store(true)
	for !flag.Load() { // the goroutine runs only if this one is preempted
	}
	s.by[EvGoPreempt] = s.main
	// This goroutine runs only if the one that is in the system call loses the processor.
	g := blocked(t, "syscall", func() { syscall.Read(in, make([]byte, 1)) })
	syscall.Write(out, []byte{1})
	ended(g)
	for _, ev := range []Event{EvGoSysCall, EvGoSysExit, EvGoSysBlock} {
		s.by[ev] = g
	}
	ch := make(chan int)
	g = started(func() { <-ch })
	waitState(t, g, "chan receive")
	ch <- 1
	ended(g)
	s.by[EvGoStartLocal], s.by[EvGoUnblockLocal] = g, g
	for i := 0; i < 100; i++ {
		syscall.Access("/", 0)
	}
	s.by[EvGoSysExitLocal] = s.main
	restore()
}

// collect lets the garbage collector run, and goroutines help it and wait for it.
func (s *script) collect() {
	var before, after runtime.MemStats
	assist := []metrics.Sample{{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}}
	assisted := func() float64 {
		metrics.Read(assist)
		return assist[0].Value.Float64()
	}
	runtime.ReadMemStats(&before)
	begin := assisted()
	runtime.GC()
	s.by[EvGoBlock] = s.main // it waits until the collection ends
	for assisted() == begin {
		var allocate sync.WaitGroup
		for i := 0; i < 8; i++ {
			allocate.Add(1)
			go func() {
				defer allocate.Done()
				for i := 0; i < 1000; i++ {
					b := make([]byte, 64<<10)
					sink.Store(&b)
				}
			}()
		}
		allocate.Wait()
		runtime.GC()
	}
	sweepSpans()
	runtime.GC()
	runtime.ReadMemStats(&after)
	s.gcs = after.NumGC - before.NumGC
}

// sweepSpans lets collections start by themselves. A goroutine that allocates small objects afterwards sweeps the spans that it needs, since
// the sweeper in the background has no processor.
func sweepSpans() {
	defer oneProc()()
	cycles := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}}
	count := func() uint64 {
		metrics.Read(cycles)
		return cycles[0].Value.Uint64()
	}
	for end := count() + 5; count() < end; {
		for i := 0; i < 1000; i++ {
			b := make([]byte, 512)
			sink.Store(&b)
		}
	}
}

// annotate uses package runtime/trace as programs do.
func (s *script) annotate() {
	ctx, task := trace.NewTask(context.Background(), "checkout")
	trace.WithRegion(ctx, "pay", func() {
		trace.Log(ctx, "order", "4711")
	})
	_, inner := trace.NewTask(ctx, "refund")
	inner.End()
	task.End()
}

// check checks the events of the script's goroutines.
func (s *script) check(t *testing.T, c *recorder) {
	for ev, g := range s.by {
		if len(c.ofG(ev, g)) == 0 {
			t.Errorf("%s: no event for goroutine %d", ev, g.ID)
		}
	}
	for _, g := range s.created {
		created, gone := c.ofG(EvGoCreate, g), c.ofG(EvGoEnd, g)
		switch {
		case len(created) != 1 || len(gone) != 1:
			t.Errorf("goroutine %d: created %d times, ended %d times", g.ID, len(created), len(gone))
		case created[0].By != s.main || created[0].Time >= gone[0].Time:
			t.Errorf("goroutine %d: %+v, %+v", g.ID, created[0], gone[0])
		}
	}
	receiver := s.by[EvGoBlockRecv]
	if woken := c.ofG(EvGoUnblock, receiver); len(woken) == 0 || woken[len(woken)-1].By != s.main {
		t.Errorf("GoUnblock of the receiver: %+v", woken)
	}
	for _, p := range append(c.of(EvProcStart, nil), c.of(EvProcStop, nil)...) {
		if p.P.ID < 0 || int(p.P.ID) >= runtime.GOMAXPROCS(0) {
			t.Errorf("%s of P %d", p.Event, p.P.ID)
		}
	}
	for _, ev := range Events() {
		if !events[ev].never && ev != EvGoBlockGC && len(c.of(ev, nil)) == 0 {
			t.Errorf("%s: no event", ev)
		}
		if events[ev].never && len(c.of(ev, nil)) > 0 {
			t.Errorf("%s: unexpected event", ev)
		}
	}
}

// checkGC compares the events of the garbage collector with the runtime's own count.
func checkGC(t *testing.T, c *recorder, s *script) {
	kind := func(k uint64) int {
		return len(c.of(EvGCSTWStart, func(r Record) bool { return r.Args[0] == k }))
	}
	for name, n := range map[string]int{
		"GCStart": len(c.of(EvGCStart, nil)), "GCDone": len(c.of(EvGCDone, nil)), "sweep terminations": kind(STWSweepTermination),
	} {
		if n < int(s.gcs) { // one more may have been before or after
			t.Errorf("%s: %d, want %d", name, n, s.gcs)
		}
	}
	if kind(STWMarkTermination) < int(s.gcs) || kind(2) != 0 {
		t.Errorf("mark terminations: %d of %d", kind(STWMarkTermination), s.gcs)
	}
	if start, done := len(c.of(EvGCSTWStart, nil)), len(c.of(EvGCSTWDone, nil)); start != done && start != done+1 { // the last may not be over
		t.Errorf("world stopped %d times, started %d times", start, done)
	}
	if swept := c.of(EvGCSweepDone, func(r Record) bool { return r.Args[0] > 0 && r.Args[1] <= r.Args[0] }); len(swept) == 0 {
		t.Error("nothing swept")
	}
	for _, r := range c.of(EvGoStartLabel, nil) {
		if !strings.HasPrefix(r.Text[0], "GC (") || len(c.ofG(EvGoStart, r.G)) == 0 {
			t.Errorf("label %q", r.Text[0])
		}
	}
}

// checkUser checks tasks, regions and logs.
func checkUser(t *testing.T, c *recorder, s *script) {
	var got []string
	tasks := map[uint64]string{0: "none"}
	for _, r := range c.records {
		if r.G != s.main {
			continue
		}
		switch r.Event {
		case EvUserTaskCreate:
			tasks[r.Args[0]] = r.Text[0]
			got = append(got, fmt.Sprint("create ", r.Text[0], " of ", tasks[r.Args[1]]))
		case EvUserTaskEnd:
			got = append(got, "end "+tasks[r.Args[0]])
		case EvUserRegion:
			got = append(got, fmt.Sprint("region ", r.Text[0], " of ", tasks[r.Args[0]], " ", r.Args[1]))
		case EvUserLog:
			got = append(got, fmt.Sprint("log ", r.Text, " of ", tasks[r.Args[0]]))
		}
	}
	want := []string{"create checkout of none", "region pay of checkout 0", "log [order 4711] of checkout", "region pay of checkout 1",
		"create refund of checkout", "end refund", "end checkout"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("user events %q, want %q", got, want)
	}
	for _, text := range []string{"4711", "pay", "chan send"} {
		if len(c.of(EvString, func(r Record) bool { return r.Text[0] == text })) == 0 {
			t.Errorf("no string %q", text)
		}
	}
}

// checkCalls compares what the callbacks of the Register methods got with the records of Handle, while all were registered and
// until the last Flush.
func checkCalls(t *testing.T, c *recorder, begin, end int64) {
	for _, ev := range Events() {
		if events[ev].atRegistration {
			continue // each callback has its own registration
		}
		var got, want [][]any
		for _, r := range c.of(ev, func(r Record) bool { return begin <= r.Time && r.Time <= end }) {
			want = append(want, argsOf(r))
		}
		for _, args := range c.calls[ev.String()] {
			if time := args[0].(int64); begin <= time && time <= end {
				got = append(got, args)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d calls, want %d:\n%.500s\n%.500s", ev, len(got), len(want), fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}

// argsOf returns the arguments of the callback of an event's Register method.
func argsOf(r Record) []any {
	args := []any{r.Time}
	switch r.Event {
	case EvProcStart, EvProcStop:
		return append(args, r.P)
	case EvGCStart, EvGCDone, EvGCSTWDone, EvGCSweepStart, EvGCMarkAssistStart, EvGCMarkAssistDone, EvGoSysExitLocal:
		return args
	case EvGCSTWStart:
		return append(args, int(r.Args[0]))
	case EvGCSweepDone:
		return append(args, uintptr(r.Args[0]), uintptr(r.Args[1]))
	case EvHeapAlloc, EvNextGC:
		return append(args, r.Args[0])
	case EvString:
		return append(args, r.Text[0])
	case EvGoStartLabel:
		return append(args, r.G, r.Text[0])
	case EvUserTaskCreate:
		return append(args, r.Args[0], r.Args[1], r.Text[0])
	case EvUserTaskEnd:
		return append(args, r.Args[0])
	case EvUserRegion:
		return append(args, r.Args[0], uint8(r.Args[1]), r.Text[0])
	case EvUserLog:
		return append(args, r.Args[0], r.Text[0], r.Text[1])
	}
	return append(args, r.G)
}
