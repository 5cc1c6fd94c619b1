package tui

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// began is when observations of tests begin.
var began = time.Date(2026, 3, 1, 14, 3, 5, 0, time.UTC).UnixNano()

// world is a made-up program under observation: a machine that is told what happens, and a clock that stands still in
// between.
type world struct {
	machine *sched.Machine
	now     int64
	health  live.Health
	next    uint64 // ID of the next goroutine
	sampler *live.Sampler
}

func newWorld() *world {
	w := &world{machine: sched.New(sched.Options{History: 1000}), now: began, next: 100}
	w.sampler = live.NewSampler(w.machine, w.options())
	return w
}

func (w *world) options() live.SamplerOptions {
	return live.SamplerOptions{Clock: func() int64 { return w.now }, Health: func() live.Health { return w.health },
		Usage: w.usage, Memory: w.memory, Window: time.Second / 2}
}

// count counts allocations from now on.
func (w *world) count() {
	opt := w.options()
	opt.Allocs = w.allocs
	w.sampler = live.NewSampler(w.machine, opt)
}

// memory is that of a program that allocates 30 MiB/s and collects once per second.
func (w *world) memory() (*event.Memory, error) {
	d := time.Duration(w.now - began)
	n := uint64(d / time.Millisecond)
	m := &event.Memory{Time: time.Unix(0, w.now)}
	m.Heap = event.HeapMemory{Alloc: 48 << 20, Live: 31 << 20, Goal: 64 << 20, TotalAlloc: n * 30 << 10, Mallocs: n * 250}
	m.GC = event.GCMemory{Cycles: 1200 + uint32(d/time.Second), CPU: &event.GCCPUSeconds{GC: d / 25, Total: 2 * d}}
	return m, nil
}

// allocs are those of connections, of leaked goroutines and of the runtime.
func (w *world) allocs() (*allocs.Counts, error) {
	n := uint64((w.now - began) / int64(time.Millisecond))
	sums := func(objects, bytes uint64) allocs.Sums { return allocs.Sums{Objects: objects * n, Bytes: bytes * n} }
	return &allocs.Counts{Ended: time.Unix(0, w.now), Total: sums(250, 30<<10), Goroutines: []allocs.Goroutine{
		{ID: 3, Origin: *connOrigin, Sums: sums(200, 24<<10)}, {ID: 100, Origin: *leakOrigin, Sums: sums(49, 5<<10)}, {Sums: sums(1, 1<<10)}}}, nil
}

func (w *world) apply(e event.Event) {
	e.Time, e.TID = w.now, connThread
	if e.G == 60 {
		e.TID = workThread
	}
	w.machine.Apply(&e)
}

// usage is that of two threads, which run for a third of the time and wait for a tenth of it, and one that ran always.
func (w *world) usage() (event.Usage, bool) {
	d := time.Duration(w.now - began)
	return event.Usage{CPU: d + d/3, RSS: 96 << 20, Procs: 2, Threads: []event.ThreadUsage{
		{TID: connThread, CPU: d / 3, Wait: d / 10}, {TID: workThread, CPU: d}}}, true
}

const connThread, workThread = 7, 8

func (w *world) pass(d time.Duration) { w.now += int64(d) }

func frame(function, file string, line int) event.Frame {
	return event.Frame{Func: function, File: file, Line: line}
}

func stackOf(frames ...event.Frame) *event.Stack { return &event.Stack{Frames: frames} }

// The places and origins of a shop.
var (
	atServe    = frame("net/http.(*conn).serve", "/go/src/net/http/server.go", 2009)
	serveLoop  = frame("net/http.(*Server).Serve", "/go/src/net/http/server.go", 3285)
	atLedger   = frame("example.com/shop.(*Ledger).Post", "/src/shop/ledger.go", 41)
	atAudit    = frame("example.com/shop.(*Ledger).Audit", "/src/shop/ledger.go", 77)
	atSearch   = frame("example.com/shop/search.All", "/src/shop/search/search.go", 33)
	atReplica  = frame("example.com/shop/search.askReplica", "/src/shop/search/search.go", 52)
	atMain     = frame("main.main", "/src/shop/cmd/shop/main.go", 28)
	lockSlow   = frame("internal/sync.(*Mutex).lockSlow", "/go/src/internal/sync/mutex.go", 149)
	mutexLock  = frame("sync.(*Mutex).Lock", "/go/src/sync/mutex.go", 46)
	mutexFree  = frame("sync.(*Mutex).Unlock", "/go/src/sync/mutex.go", 65)
	pollRead   = frame("internal/poll.(*FD).Read", "/go/src/internal/poll/fd_unix.go", 164)
	stackLock  = stackOf(lockSlow, mutexLock, atLedger, frame("example.com/shop.(*Server).pay", "/src/shop/server.go", 120), atServe)
	stackFree  = stackOf(mutexFree, atAudit, frame("example.com/shop.keepBooks", "/src/shop/ledger.go", 95))
	stackRead  = stackOf(pollRead, frame("net.(*conn).Read", "/go/src/net/net.go", 194), atServe)
	stackSend  = stackOf(atReplica)
	stackMain  = stackOf(frame("os/signal.NotifyContext", "/go/src/os/signal/signal.go", 280), atMain)
	stackMake  = stackOf(atSearch, frame("example.com/shop.(*Server).find", "/src/shop/server.go", 88), atServe)
	connOrigin = &event.Origin{CreatedBy: serveLoop, Start: atServe}
	leakOrigin = &event.Origin{CreatedBy: atSearch, Start: atReplica}
	workOrigin = &event.Origin{CreatedBy: atMain, Start: frame("main.main.gowrap1", "/src/shop/cmd/shop/main.go", 31)}
	mainOrigin = &event.Origin{Start: frame("runtime.main", "/go/src/runtime/proc.go", 147)}
	idleOrigin = &event.Origin{Start: frame("runtime.bgsweep", "/go/src/runtime/mgcsweep.go", 276), System: true}
)

// shop is a world after some seconds: a web server with a contended lock, a leak, and a collector that works.
func shop(seconds int) *world {
	w := newWorld()
	w.apply(event.Event{Kind: event.GoStatus, G: 1, State: event.StateWaiting, Reason: "select", Origin: mainOrigin, Stack: stackMain, Value: int64(3 * time.Hour)})
	w.apply(event.Event{Kind: event.GoStatus, G: 2, State: event.StateWaiting, Reason: "GC sweep wait", Origin: idleOrigin})
	for g := uint64(3); g < 60; g++ {
		w.apply(event.Event{Kind: event.GoStatus, G: g, Parent: 1, State: event.StateWaiting, Reason: "IO wait", Origin: connOrigin, Stack: stackRead, Value: int64(time.Minute)})
	}
	w.apply(event.Event{Kind: event.GoStatus, G: 60, Parent: 1, State: event.StateRunning, Origin: workOrigin})
	for range seconds {
		w.second()
	}
	return w
}

// second is one second of the shop.
func (w *world) second() {
	const step = 10 * time.Millisecond
	for i := range uint64(10) {
		conn := 3 + i
		w.apply(event.Event{Kind: event.GoUnblock, G: conn})
		w.pass(20 * time.Microsecond)
		w.apply(event.Event{Kind: event.GoStart, G: conn})
		w.pass(300 * time.Microsecond)
		leak := w.next
		w.next++
		w.apply(event.Event{Kind: event.GoCreate, G: leak, Parent: conn, Origin: leakOrigin, Stack: stackMake})
		w.pass(150 * time.Microsecond)
		w.apply(event.Event{Kind: event.GoBlock, G: conn, Reason: "sync.Mutex.Lock", TraceReason: "sync", Stack: stackLock})
		w.apply(event.Event{Kind: event.GoStart, G: leak})
		w.pass(2 * time.Millisecond)
		if i%3 == 0 {
			w.apply(event.Event{Kind: event.GoBlock, G: leak, Reason: "chan send", Stack: stackSend})
		} else {
			w.apply(event.Event{Kind: event.GoDestroy, G: leak})
		}
		w.pass(40 * time.Millisecond)
		w.apply(event.Event{Kind: event.GoUnblock, G: conn, By: 60, Stack: stackFree})
		w.pass(time.Duration(i) * time.Millisecond)
		w.apply(event.Event{Kind: event.GoStart, G: conn})
		w.pass(step)
		w.apply(event.Event{Kind: event.GoBlock, G: conn, Reason: "IO wait", Stack: stackRead})
	}
	w.apply(event.Event{Kind: event.GCBegin, G: 60})
	w.apply(event.Event{Kind: event.STWBegin, G: 60, Reason: "GC sweep termination"})
	w.pass(45 * time.Microsecond)
	w.apply(event.Event{Kind: event.STWEnd})
	w.pass(3 * time.Millisecond)
	w.apply(event.Event{Kind: event.GCEnd})
	w.apply(event.Event{Kind: event.HeapAlloc, Value: 48<<20 + int64(w.next)<<10})
	w.pass(400 * time.Millisecond)
}

// desk is somebody in front of the live view of a world.
type desk struct {
	t     *testing.T
	world *world
	model *Model
}

var testTarget = Target{Name: "shop", PID: 4711, GoVersion: "go1.26.8", Module: "example.com/shop"}

// sit opens the view and looks at the world for a while.
func sit(t *testing.T, w *world, width, height int) *desk {
	return sitWith(t, w, testTarget, width, height)
}

func sitWith(t *testing.T, w *world, target Target, width, height int) *desk {
	d := &desk{t, w, NewModel(target, time.Second, false)}
	d.model.Update(Resize{width, height})
	d.look()
	return d
}

// look takes the picture that the model wants.
func (d *desk) look() { d.model.Update(d.world.sampler.Take(d.model.Query())) }

// wait lets seconds of the shop pass, with a picture after each.
func (d *desk) wait(seconds int) {
	for range seconds {
		d.world.second()
		if !d.model.Paused() {
			d.look()
		}
	}
}

// press presses keys: names, or texts after a "/".
func (d *desk) press(keys ...string) (quit bool) {
	for _, k := range keys {
		name := k
		if k == " " {
			name = "space"
		}
		text := ""
		if len([]rune(k)) == 1 {
			text = k
		}
		a := d.model.Update(Key{Name: name, Text: text})
		if a.Want {
			d.look()
		}
		quit = quit || a.Quit
	}
	return quit
}

// screen is what is seen.
func (d *desk) screen() string { return d.model.View(d.model.width, d.model.height) }

// TestMain draws times of day in UTC.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	m.Run()
}

// keysOf splits a text into keys.
func keysOf(text string) []string {
	var keys []string
	for _, r := range text {
		keys = append(keys, string(r))
	}
	return keys
}
