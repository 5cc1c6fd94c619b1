package sched

import (
	"fmt"
	"math/rand/v2"

	"github.com/loupe-go/loupe/event"
)

// sim is a simulated scheduler. It generates a valid stream of events, and records the true times and counts in a simple way.
type sim struct {
	rng      *rand.Rand
	syscalls bool // system calls are observed
	now      int64
	procs    int
	nextID   uint64

	live    []*simG
	all     []*simG
	events  []event.Event
	after   []event.State // the state of the goroutine after each event; empty if it has ended
	truth   truth
	stacks  []*event.Stack
	origins []*event.Origin
}

// simG is a goroutine of the simulator.
type simG struct {
	id, parent uint64
	atStart    bool
	seen       int64
	origin     *event.Origin
	state      event.State
	since      int64
	spent      map[event.State]int64
	starts     uint64
	blocks     uint64
	coroutine  bool
	hidden     bool   // in a system call that is not observed
	cause      string // why it is runnable: created, woken or stopped; empty if it was runnable at the start
	spot              // its last place
	waker      uint64
	woken      bool
	ended      bool
}

// spot is a stack and a reason.
type spot struct {
	stack  *event.Stack
	reason string
}

// measure summarizes a number of durations, in nanoseconds.
type measure struct {
	count uint64
	sum   int64
	max   int64
}

func (m *measure) add(d int64) {
	m.count++
	m.sum += d
	m.max = max(m.max, d)
}

// truth holds the values that a Machine must determine.
type truth struct {
	latency        map[string]*measure // by simG.cause
	delays         map[spot]*measure   // by the place where the goroutine was before
	waits          map[spot]*measure
	wakes          map[spot]*measure
	calls          map[spot]*measure
	created, ended map[*event.Origin]uint64
	resumed        uint64
}

func at[K comparable](m map[K]*measure, key K) *measure {
	if m[key] == nil {
		m[key] = &measure{}
	}
	return m[key]
}

// newSim returns a simulator with eight goroutines that are alive at the start of the stream.
func newSim(seed uint64, syscalls bool) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 7)), syscalls: syscalls, now: 1_700_000_000_000_000_000, procs: 4, nextID: 100,
		truth: truth{latency: map[string]*measure{}, delays: map[spot]*measure{}, waits: map[spot]*measure{}, wakes: map[spot]*measure{},
			calls: map[spot]*measure{}, created: map[*event.Origin]uint64{}, ended: map[*event.Origin]uint64{}}}
	for i := range 12 {
		s.stacks = append(s.stacks, &event.Stack{Frames: []event.Frame{{Func: fmt.Sprintf("main.f%d", i), Line: i + 1}}})
	}
	s.stacks = append(s.stacks, nil)
	for i := range 6 {
		s.origins = append(s.origins, &event.Origin{Start: event.Frame{Func: fmt.Sprintf("main.g%d", i)}, System: i == 5})
	}
	for i := range 8 {
		g := &simG{id: uint64(i*i + 1), parent: uint64(i), atStart: true, seen: s.now, since: s.now, origin: s.anyOrigin(),
			spent: map[event.State]int64{}, state: event.StateWaiting, spot: spot{s.anyStack(), "chan receive"}}
		value := s.rng.Int64N(1e9)
		switch i {
		case 0:
			g.state, g.reason, value = event.StateRunning, "", 0
		case 1:
			g.state, g.reason, value = event.StateRunnable, "", 0
		}
		s.live, s.all = append(s.live, g), append(s.all, g)
		s.emit(event.Event{Kind: event.GoStatus, G: g.id, Parent: g.parent, State: g.state, Reason: g.reason, Stack: g.stack,
			Origin: g.origin, Value: value}, g)
	}
	return s
}

func (s *sim) anyStack() *event.Stack   { return s.stacks[s.rng.IntN(len(s.stacks))] }
func (s *sim) anyOrigin() *event.Origin { return s.origins[s.rng.IntN(len(s.origins))] }

func (s *sim) emit(e event.Event, g *simG) {
	e.Time = s.now
	s.events = append(s.events, e)
	if g.ended {
		s.after = append(s.after, "")
		return
	}
	s.after = append(s.after, g.state)
}

// change changes the state of a goroutine, and returns the duration of the previous state in nanoseconds.
func (s *sim) change(g *simG, to event.State) int64 {
	d := s.now - g.since
	g.spent[g.state] += d
	g.state, g.since = to, s.now
	return d
}

func (s *sim) in(state event.State) []*simG {
	var list []*simG
	for _, g := range s.live {
		if g.state == state {
			list = append(list, g)
		}
	}
	return list
}

func pick[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// run performs the given number of steps.
func (s *sim) run(steps int) *sim {
	for range steps {
		s.now += 1 + s.rng.Int64N(1<<s.rng.IntN(24))
		running, runnable := s.in(event.StateRunning), s.in(event.StateRunnable)
		switch {
		case len(running) < s.procs && len(runnable) > 0 && s.rng.IntN(2) == 0:
			s.start(pick(s.rng, runnable))
		case len(running) > 0 && s.rng.IntN(8) > 0:
			s.act(pick(s.rng, running))
		default:
			s.outside()
		}
	}
	return s
}

// start starts a runnable goroutine.
func (s *sim) start(g *simG) {
	d := s.change(g, event.StateRunning)
	g.starts++
	if g.cause != "" {
		at(s.truth.latency, g.cause).add(d)
		if g.cause != "created" {
			at(s.truth.delays, g.spot).add(d)
		}
	}
	s.emit(event.Event{Kind: event.GoStart, G: g.id}, g)
}

var simReasons = []string{"chan send", "select", "IO wait", "chan receive", "sync.Mutex.Lock"}

// act performs a random action of a running goroutine.
func (s *sim) act(g *simG) {
	if g.hidden { // it returns from an unobserved system call during which it lost its P
		g.hidden = false
		g.starts++
		s.truth.resumed++
		s.emit(event.Event{Kind: event.GoStart, G: g.id}, g)
		return
	}
	switch n := s.rng.IntN(20); {
	case n < 4:
		s.create(g)
	case n < 9:
		s.block(g)
	case n < 11:
		s.change(g, event.StateRunnable)
		g.cause, g.spot = "stopped", spot{s.anyStack(), event.StopPreempted}
		s.emit(event.Event{Kind: event.GoStop, G: g.id, Reason: g.reason, Stack: g.stack}, g)
	case n < 13:
		s.change(g, "")
		g.ended = true
		s.truth.ended[g.origin]++
		for i := range s.live {
			if s.live[i] == g {
				s.live = append(s.live[:i], s.live[i+1:]...)
				break
			}
		}
		s.emit(event.Event{Kind: event.GoDestroy, G: g.id}, g)
	case n < 15 && !s.syscalls:
		g.hidden = true
	case n < 15:
		s.change(g, event.StateSyscall)
		g.spot = spot{s.anyStack(), ""}
		s.emit(event.Event{Kind: event.GoSyscallBegin, G: g.id, Stack: g.stack}, g)
	case n < 17:
		if stack := s.anyStack(); stack != nil {
			g.spot = spot{stack, ""}
			s.emit(event.Event{Kind: event.ChanSend, G: g.id, Object: 0xc000, Stack: stack}, g)
		}
	default:
		if waiting := s.in(event.StateWaiting); len(waiting) > 0 {
			s.unblock(pick(s.rng, waiting), g.id)
		}
	}
}

func (s *sim) create(by *simG) {
	s.nextID += 1 + s.rng.Uint64N(20)
	g := &simG{id: s.nextID, parent: by.id, seen: s.now, since: s.now, origin: s.anyOrigin(), spent: map[event.State]int64{},
		state: event.StateRunnable, cause: "created"}
	e := event.Event{Kind: event.GoCreate, G: g.id, Parent: by.id, Origin: g.origin, Stack: s.anyStack()}
	if s.rng.IntN(10) == 0 {
		g.coroutine, g.state = true, event.StateWaiting
		e.State = event.StateWaiting
	}
	s.truth.created[g.origin]++
	s.live, s.all = append(s.live, g), append(s.all, g)
	s.emit(e, g)
}

func (s *sim) block(g *simG) {
	s.change(g, event.StateWaiting)
	g.blocks++
	g.spot = spot{s.anyStack(), pick(s.rng, simReasons)}
	s.emit(event.Event{Kind: event.GoBlock, G: g.id, Reason: g.reason, Stack: g.stack}, g)
}

func (s *sim) unblock(g *simG, by uint64) {
	d := s.change(g, event.StateRunnable)
	at(s.truth.waits, g.spot).add(d)
	if g.coroutine && g.starts == 0 { // a coroutine switch: it starts immediately
		g.state, g.starts = event.StateRunning, 1
		s.emit(event.Event{Kind: event.GoStart, G: g.id}, g)
		return
	}
	stack := s.anyStack()
	at(s.truth.wakes, spot{stack, g.reason}).add(d)
	g.cause, g.waker, g.woken = "woken", by, true
	s.emit(event.Event{Kind: event.GoUnblock, G: g.id, By: by, Stack: stack}, g)
}

// outside performs a random action from outside the program: a system call ends, or the network poller unblocks a goroutine.
func (s *sim) outside() {
	if calls := s.in(event.StateSyscall); len(calls) > 0 && s.rng.IntN(2) == 0 {
		g := pick(s.rng, calls)
		d := s.change(g, event.StateRunning)
		at(s.truth.calls, g.spot).add(d)
		if s.rng.IntN(2) == 0 {
			g.starts++
			s.emit(event.Event{Kind: event.GoStart, G: g.id}, g)
			if s.rng.IntN(2) == 0 {
				return
			}
		}
		s.emit(event.Event{Kind: event.GoSyscallEnd, G: g.id, Value: d}, g)
		return
	}
	if waiting := s.in(event.StateWaiting); len(waiting) > 0 {
		s.unblock(pick(s.rng, waiting), 0)
	}
}
