package exporttest

import (
	"fmt"
	"math/rand/v2"

	"github.com/loupe-go/loupe/event"
)

// Random returns a stream as a program with some goroutines makes it: every event follows from the ones before. Texts and stacks
// are of a small number.
func Random(seed uint64, n int) []event.Event {
	p := &program{rng: rand.New(rand.NewPCG(seed, 1)), now: Start, next: 10, state: map[uint64]event.State{}, threads: map[uint64]int32{}, regions: map[uint64][]string{}}
	for i := range 20 {
		p.stacks = append(p.stacks, &event.Stack{Truncated: i%5 == 0, Frames: []event.Frame{
			{Func: fmt.Sprintf("main.f%d", i), File: "/src/f.go", Line: i + 1}, {Func: fmt.Sprintf("main.g%d", i%4), File: "/src/g.go", Line: 3}}})
	}
	for i := range 5 {
		p.origins = append(p.origins, &event.Origin{Start: event.Frame{Func: fmt.Sprintf("main.work%d", i)}, System: i == 0})
	}
	p.status(1, event.StateRunning)
	p.status(2, event.StateWaiting)
	p.status(3, event.StateRunnable)
	for len(p.events) < n {
		p.step()
	}
	return p.events[:n]
}

// program is the program that Random simulates.
type program struct {
	rng     *rand.Rand
	events  []event.Event
	now     int64
	next    uint64
	ids     []uint64
	state   map[uint64]event.State
	threads map[uint64]int32
	regions map[uint64][]string
	tasks   []int64
	task    int64
	gc, stw bool
	stacks  []*event.Stack
	origins []*event.Origin
}

var waitReasons = []string{"chan receive", "select", "IO wait", "sync.Mutex.Lock", "sleep"}

func (p *program) stack() *event.Stack { return p.stacks[p.rng.IntN(len(p.stacks))] }

func (p *program) add(e event.Event) {
	p.now += p.rng.Int64N(2000)
	e.Time, e.PID = p.now, 1234
	if on := p.state[e.G]; on == event.StateRunning || on == event.StateSyscall {
		e.TID = p.thread(e.G)
		e.P = event.ProcOf(e.TID % 2)
	} else if tid := p.threads[e.G]; tid != 0 {
		e.TID = tid
		delete(p.threads, e.G)
	}
	p.events = append(p.events, e)
}

// thread returns the thread that a goroutine runs on, or the first free thread if it has none.
func (p *program) thread(g uint64) int32 {
	if p.threads[g] == 0 {
		used := map[int32]bool{}
		for _, tid := range p.threads {
			used[tid] = true
		}
		p.threads[g] = 7
		for used[p.threads[g]] {
			p.threads[g]++
		}
	}
	return p.threads[g]
}

func (p *program) status(g uint64, s event.State) {
	p.ids = append(p.ids, g)
	p.state[g] = s
	p.add(event.Event{Kind: event.GoStatus, G: g, State: s, Reason: "sleep", Value: 10, Stack: p.stack(), Origin: p.origins[g%5]})
}

// step generates an event of one goroutine, or of the program.
func (p *program) step() {
	if p.rng.IntN(12) == 0 {
		p.whole()
		return
	}
	i := p.rng.IntN(len(p.ids))
	g := p.ids[i]
	set := func(s event.State, e event.Event) {
		e.G = g
		p.state[g] = s
		p.add(e)
	}
	switch p.state[g] {
	case event.StateWaiting:
		by := p.ids[p.rng.IntN(len(p.ids))]
		if p.state[by] != event.StateRunning {
			by = 0
		}
		set(event.StateRunnable, event.Event{Kind: event.GoUnblock, By: by, Stack: p.stack()})
	case event.StateRunnable:
		set(event.StateRunning, event.Event{Kind: event.GoStart})
	case event.StateSyscall:
		set(event.StateRunning, event.Event{Kind: event.GoSyscallEnd, Value: 5})
	default:
		p.run(i, g, set)
	}
}

// run generates an event of a running goroutine.
func (p *program) run(i int, g uint64, set func(event.State, event.Event)) {
	switch p.rng.IntN(12) {
	case 0, 1, 2, 3:
		set(event.StateWaiting, event.Event{Kind: event.GoBlock, Reason: waitReasons[p.rng.IntN(len(waitReasons))], TraceReason: "sync", Stack: p.stack()})
	case 4:
		set(event.StateRunnable, event.Event{Kind: event.GoStop, Reason: event.StopPreempted, Stack: p.stack()})
	case 5:
		set(event.StateSyscall, event.Event{Kind: event.GoSyscallBegin, Stack: p.stack()})
	case 6:
		set(event.StateRunning, event.Event{Kind: event.ChanSend, Object: g << 8, Stack: p.stack()})
	case 7:
		if len(p.ids) < 3 {
			return
		}
		p.ids = append(p.ids[:i], p.ids[i+1:]...)
		delete(p.regions, g)
		set("", event.Event{Kind: event.GoDestroy})
		delete(p.state, g)
	case 8:
		name := fmt.Sprintf("region %d", p.rng.IntN(3))
		p.regions[g] = append(p.regions[g], name)
		set(event.StateRunning, event.Event{Kind: event.UserRegionBegin, Text: name, Value: p.task})
	case 9:
		if r := p.regions[g]; len(r) > 0 {
			p.regions[g] = r[:len(r)-1]
			set(event.StateRunning, event.Event{Kind: event.UserRegionEnd, Text: r[len(r)-1]})
		}
	default:
		p.next++
		p.ids = append(p.ids, p.next)
		p.state[p.next] = event.StateRunnable
		p.add(event.Event{Kind: event.GoCreate, G: p.next, Parent: g, Origin: p.origins[p.next%5], Stack: p.stack()})
	}
}

// whole generates an event of the program.
func (p *program) whole() {
	switch p.rng.IntN(6) {
	case 0:
		p.gc = !p.gc
		p.add(event.Event{Kind: map[bool]event.Kind{true: event.GCBegin, false: event.GCEnd}[p.gc], G: p.ids[0]})
	case 1:
		p.stw = !p.stw
		p.add(event.Event{Kind: map[bool]event.Kind{true: event.STWBegin, false: event.STWEnd}[p.stw], G: p.ids[0], Reason: "start GC"})
	case 2:
		p.add(event.Event{Kind: event.HeapAlloc, Value: p.rng.Int64N(1 << 30)})
	case 3:
		p.task++
		p.tasks = append(p.tasks, p.task)
		p.add(event.Event{Kind: event.UserTaskBegin, G: p.ids[0], Value: p.task, Text: fmt.Sprintf("task %d", p.task%3)})
	case 4:
		if len(p.tasks) > 0 {
			p.add(event.Event{Kind: event.UserTaskEnd, G: p.ids[0], Value: p.tasks[0]})
			p.tasks = p.tasks[1:]
		}
	case 5:
		p.add(event.Event{Kind: event.UserLog, G: p.ids[0], Reason: "info", Text: "it goes on", Value: p.task})
	}
}

// Lose leaves out one event in so many, in runs of up to four, with a Lost event after each run.
func Lose(seed uint64, events []event.Event, oneIn int) []event.Event {
	rng := rand.New(rand.NewPCG(seed, 2))
	var out []event.Event
	for i := 0; i < len(events); i++ {
		if i > 0 && rng.IntN(oneIn*5/2) == 0 {
			n := min(1+rng.IntN(4), len(events)-i)
			i += n - 1
			out = append(out, event.Event{Kind: event.Lost, Time: events[i].Time, PID: events[i].PID, Value: int64(n)})
			continue
		}
		out = append(out, events[i])
	}
	return out
}
