package writer

import (
	"fmt"
	"math/rand/v2"

	"github.com/loupe-go/loupe/event"
)

// A simulation is a scheduler that makes a valid stream of events, as probes in a Go program would report them.
type simulation struct {
	simOptions
	rng     *rand.Rand
	assists *rand.Rand // decides on mark assists
	now     int64
	nextID  uint64
	nextTID int32

	idle    []*simP
	threads []*simM
	live    []*simG
	events  []event.Event
	stw     *simG
	gc      bool
	task    int64

	stacks  []*event.Stack
	origins []*event.Origin
}

// simOptions says what is observed.
type simOptions struct {
	procs    int
	syscalls bool // system calls are
	noCalls  bool // there are no system calls
	known    bool // the Ps are
	noTID    bool // the threads are not
	user     bool // tasks, regions and logs are
	ops      bool // channel operations are
	disorder bool // times of threads are not in order
}

type simP struct{ id int32 }

type simM struct {
	tid int32
	p   *simP
	g   *simG
}

type simG struct {
	id        uint64
	state     event.State
	m         *simM
	origin    *event.Origin
	stack     *event.Stack // what it was doing when the stream began
	coroutine bool
	hidden    bool // in a system call that is not observed
	assists   bool // marks for the garbage collector
	regions   []event.Event
}

// newSimulation begins with some goroutines that are alive already.
func newSimulation(seed uint64, opt simOptions) *simulation {
	s := &simulation{simOptions: opt, rng: rand.New(rand.NewPCG(seed, 11)), assists: rand.New(rand.NewPCG(seed, 12)), now: 1_700_000_000_123_456_789, nextID: 200, nextTID: 5000}
	for i := range opt.procs {
		s.idle = append(s.idle, &simP{int32(i)})
	}
	for i := range 40 {
		st := &event.Stack{}
		for d := range 1 + s.rng.IntN(12) {
			st.Frames = append(st.Frames, event.Frame{Func: fmt.Sprintf("main.f%d", (i+d)%30), File: fmt.Sprintf("/src/f%d.go", d%3), Line: i + d + 1})
		}
		s.stacks = append(s.stacks, st)
	}
	s.stacks = append(s.stacks, nil, &event.Stack{Frames: s.stacks[0].Frames, Truncated: true})
	for i := range 6 {
		s.origins = append(s.origins, &event.Origin{Start: event.Frame{Func: fmt.Sprintf("main.g%d", i), File: "/src/g.go", Line: 7}, System: i == 5})
	}
	s.origins = append(s.origins, nil)
	states := []event.State{event.StateRunning, event.StateRunnable, event.StateWaiting, event.StateSyscall, event.StateWaiting, event.StateLeaked}
	for i := range 12 {
		g := &simG{id: uint64(i*i + 1), origin: s.anyOrigin(), state: states[i%len(states)], stack: s.anyStack()}
		if g.state == event.StateRunning || g.state == event.StateSyscall {
			g.m = s.newM()
			g.m.g = g
			if g.state == event.StateRunning {
				if g.m.p = s.takeP(); g.m.p == nil {
					g.m.g, g.m, g.state = nil, nil, event.StateRunnable
				}
			} else if s.noCalls {
				g.m.g, g.m, g.state = nil, nil, event.StateRunnable
			} else if !s.syscalls {
				g.state, g.hidden = event.StateRunning, true
			}
		}
		s.live = append(s.live, g)
		e := event.Event{Kind: event.GoStatus, G: g.id, State: g.state, Stack: g.stack, Origin: g.origin}
		if g.hidden {
			e.State = event.StateSyscall
		}
		if g.m != nil {
			e.TID = s.tid(g.m)
			if s.rng.IntN(4) == 0 {
				e.TID = s.threads[s.rng.IntN(len(s.threads))].tid // it has moved since
			}
		}
		s.emit(e, nil)
		if g.state == event.StateLeaked {
			g.state = event.StateWaiting
		}
	}
	return s
}

func (s *simulation) tid(m *simM) int32 {
	if s.noTID {
		return 0
	}
	return m.tid
}

func (s *simulation) anyStack() *event.Stack   { return s.stacks[s.rng.IntN(len(s.stacks))] }
func (s *simulation) anyOrigin() *event.Origin { return s.origins[s.rng.IntN(len(s.origins))] }

func (s *simulation) newM() *simM {
	s.nextTID++
	m := &simM{tid: s.nextTID}
	s.threads = append(s.threads, m)
	return m
}

func (s *simulation) takeP() *simP {
	if len(s.idle) == 0 {
		return nil
	}
	i := s.rng.IntN(len(s.idle))
	p := s.idle[i]
	s.idle = append(s.idle[:i], s.idle[i+1:]...)
	return p
}

// emit adds an event of a thread.
func (s *simulation) emit(e event.Event, m *simM) {
	e.Time, e.PID = s.now, 77
	if m != nil {
		e.TID = s.tid(m)
		if m.p != nil && s.known {
			e.P = event.ProcOf(m.p.id)
		}
	}
	if s.disorder && s.rng.IntN(8) == 0 {
		e.Time -= s.rng.Int64N(400)
	}
	s.events = append(s.events, e)
}

func (s *simulation) in(state event.State) []*simG {
	var list []*simG
	for _, g := range s.live {
		if g.state == state {
			list = append(list, g)
		}
	}
	return list
}

func simPick[T any](s *simulation, list []T) T { return list[s.rng.IntN(len(list))] }

// run makes so many steps.
func (s *simulation) run(steps int) *simulation {
	for range steps {
		if s.rng.IntN(10) > 0 {
			s.now += s.rng.Int64N(1 << s.rng.IntN(22))
		}
		running, runnable := s.in(event.StateRunning), s.in(event.StateRunnable)
		switch {
		case s.stw != nil && s.rng.IntN(3) == 0:
			s.collect(s.stw)
		case s.stw == nil && len(runnable) > 0 && s.rng.IntN(2) == 0 && s.schedule(simPick(s, runnable)):
		case len(running) > 0 && s.rng.IntN(6) > 0:
			s.act(simPick(s, running))
		default:
			s.outside()
		}
	}
	return s
}

// idleM returns a thread without a goroutine that has a P, or can have one.
func (s *simulation) idleM() *simM {
	var free []*simM
	for _, m := range s.threads {
		if m.g == nil && (m.p != nil || len(s.idle) > 0) {
			free = append(free, m)
		}
	}
	var m *simM
	if len(free) == 0 || s.rng.IntN(20) == 0 {
		m = s.newM()
	} else {
		m = simPick(s, free)
	}
	if m.p == nil {
		if m.p = s.takeP(); m.p == nil {
			return nil
		}
	}
	return m
}

// schedule lets a runnable goroutine run, if there is a P.
func (s *simulation) schedule(g *simG) bool {
	m := s.idleM()
	if m == nil {
		return false
	}
	g.state, g.m, m.g = event.StateRunning, m, g
	s.emit(event.Event{Kind: event.GoStart, G: g.id}, m)
	return true
}

// leaves takes a goroutine off its thread, which may give up its P.
func (s *simulation) leaves(g *simG, to event.State) {
	m := g.m
	g.m, m.g, g.state = nil, nil, to
	if s.rng.IntN(2) == 0 {
		s.idle = append(s.idle, m.p)
		m.p = nil
	}
}

// act lets a running goroutine do something.
func (s *simulation) act(g *simG) {
	if g.hidden {
		s.endSyscall(g)
		return
	}
	m := g.m
	if s.assists.IntN(24) == 0 {
		s.assist(g)
	}
	n := s.rng.IntN(24)
	if s.stw == g && n < 14 {
		n = 14
	}
	switch {
	case n < 3:
		s.create(g)
	case n < 8:
		reason := simPick(s, [][2]string{{"chan receive", "chan receive"}, {"select", ""}, {"IO wait", ""}, {"sync.Mutex.Lock", "sync"}, {"sleep", "sleep"}})
		s.emit(event.Event{Kind: event.GoBlock, G: g.id, Reason: reason[0], TraceReason: reason[1], Stack: s.anyStack()}, m)
		s.leaves(g, event.StateWaiting)
	case n < 9:
		s.emit(event.Event{Kind: event.GoStop, G: g.id, Reason: event.StopPreempted, Stack: s.anyStack()}, m)
		s.leaves(g, event.StateRunnable)
	case n < 10:
		if g.assists {
			s.assist(g)
		}
		s.emit(event.Event{Kind: event.GoDestroy, G: g.id}, m)
		s.leaves(g, "")
		for i := range s.live {
			if s.live[i] == g {
				s.live = append(s.live[:i], s.live[i+1:]...)
				break
			}
		}
	case n < 13 && !s.noCalls:
		if s.syscalls {
			s.emit(event.Event{Kind: event.GoSyscallBegin, G: g.id, Stack: s.anyStack()}, m)
			g.state = event.StateSyscall
		} else {
			g.hidden = true
		}
		if s.rng.IntN(3) == 0 { // the scheduler takes the P away
			s.idle = append(s.idle, m.p)
			m.p = nil
		}
	case n < 14:
		s.coswitch(g)
	case n < 16 && s.ops:
		s.emit(event.Event{Kind: event.ChanSend, G: g.id, Object: 0xc000 + s.rng.Uint64N(4), Stack: s.anyStack()}, m)
	case n < 18 && s.user:
		s.annotate(g)
	case n == 18:
		s.collect(g)
	default:
		if waiting := s.in(event.StateWaiting); len(waiting) > 0 {
			s.unblock(simPick(s, waiting), g.id, m)
		}
	}
}

// assist begins or ends a mark assist.
func (s *simulation) assist(g *simG) {
	e := event.Event{Kind: event.GCMarkAssistEnd, G: g.id}
	if g.assists = !g.assists; g.assists {
		e.Kind, e.Stack = event.GCMarkAssistBegin, s.stacks[s.assists.IntN(len(s.stacks))]
	}
	s.emit(e, g.m)
}

// endSyscall brings a goroutine back from a system call.
func (s *simulation) endSyscall(g *simG) {
	m := g.m
	if m.p == nil && s.stw != nil {
		return
	}
	if !g.hidden {
		p := m.p
		m.p = nil // the runtime has none there
		s.emit(event.Event{Kind: event.GoSyscallEnd, G: g.id, Value: 5}, m)
		m.p = p
	}
	g.hidden = false
	if g.state = event.StateRunning; m.p != nil {
		return
	}
	if m.p = s.takeP(); m.p != nil && s.rng.IntN(2) == 0 {
		return // another P was free
	}
	if m.p == nil {
		g.state, g.m, m.g = event.StateRunnable, nil, nil
		return
	}
	s.now += 100
	s.emit(event.Event{Kind: event.GoStart, G: g.id}, m)
}

func (s *simulation) create(by *simG) {
	s.nextID += 1 + s.rng.Uint64N(20)
	g := &simG{id: s.nextID, origin: s.anyOrigin(), state: event.StateRunnable}
	e := event.Event{Kind: event.GoCreate, G: g.id, Parent: by.id, Origin: g.origin, Stack: s.anyStack()}
	if s.rng.IntN(10) == 0 {
		g.coroutine, g.state, e.State = true, event.StateWaiting, event.StateWaiting
	}
	s.live = append(s.live, g)
	s.emit(e, by.m)
}

// coswitch hands over to a coroutine.
func (s *simulation) coswitch(g *simG) {
	for _, to := range s.in(event.StateWaiting) {
		if !to.coroutine {
			continue
		}
		m := g.m
		s.emit(event.Event{Kind: event.GoBlock, G: g.id, Reason: "coroutine", Stack: s.anyStack()}, m)
		s.emit(event.Event{Kind: event.GoUnblock, G: to.id, By: g.id}, m)
		s.emit(event.Event{Kind: event.GoStart, G: to.id}, m)
		g.state, g.m, g.coroutine = event.StateWaiting, nil, true
		to.state, to.m, to.coroutine, m.g = event.StateRunning, m, false, to
		return
	}
}

func (s *simulation) unblock(g *simG, by uint64, m *simM) {
	if g.coroutine {
		return
	}
	g.state = event.StateRunnable
	s.emit(event.Event{Kind: event.GoUnblock, G: g.id, By: by, Stack: s.anyStack()}, m)
}

// collect does something of the garbage collector, on a goroutine.
func (s *simulation) collect(g *simG) {
	switch {
	case s.stw == g:
		s.emit(event.Event{Kind: event.STWEnd}, g.m)
		s.stw = nil
	case s.stw == nil && s.rng.IntN(2) == 0:
		s.emit(event.Event{Kind: event.STWBegin, G: g.id, Reason: "GC mark termination"}, g.m)
		s.stw = g
	case s.gc:
		s.emit(event.Event{Kind: event.GCEnd}, g.m)
		s.gc = false
	default:
		s.emit(event.Event{Kind: event.GCBegin, G: g.id}, g.m)
		s.gc = true
	}
	e := event.Event{Kind: event.HeapAlloc, Value: s.rng.Int64N(1 << 30)}
	if e.Value%2 == 0 {
		e.Kind = event.HeapGoal
	}
	s.emit(e, g.m)
}

// annotate lets a goroutine tell something.
func (s *simulation) annotate(g *simG) {
	switch n := len(g.regions); {
	case n > 0 && s.rng.IntN(2) == 0:
		e := g.regions[n-1]
		g.regions = g.regions[:n-1]
		e.Kind = event.UserRegionEnd
		s.emit(e, g.m)
	case s.rng.IntN(3) == 0:
		e := event.Event{Kind: event.UserRegionBegin, G: g.id, Text: fmt.Sprintf("region %d", s.rng.IntN(3)), Value: s.rng.Int64N(s.task + 1)}
		g.regions = append(g.regions, e)
		s.emit(e, g.m)
	case s.rng.IntN(3) == 0:
		s.task++
		s.emit(event.Event{Kind: event.UserTaskBegin, G: g.id, Value: s.task, Text: "task", Object: uint64(s.task / 2), Stack: s.anyStack()}, g.m)
	case s.task > 0 && s.rng.IntN(3) == 0:
		s.emit(event.Event{Kind: event.UserTaskEnd, G: g.id, Value: s.task, Stack: s.anyStack()}, g.m)
	case s.rng.IntN(2) == 0:
		s.emit(event.Event{Kind: event.CPUSample, G: g.id, Stack: s.anyStack()}, g.m)
	default:
		s.emit(event.Event{Kind: event.UserLog, G: g.id, Reason: "category", Text: fmt.Sprint(s.rng.IntN(99)), Value: s.task, Stack: s.anyStack()}, g.m)
	}
}

// outside lets the world outside do something.
func (s *simulation) outside() {
	if calls := s.in(event.StateSyscall); len(calls) > 0 && s.rng.IntN(2) == 0 {
		s.endSyscall(simPick(s, calls))
		return
	}
	if waiting := s.in(event.StateWaiting); len(waiting) > 0 {
		m := s.idleM()
		if m == nil {
			m = &simM{tid: 4999} // sysmon
		}
		s.unblock(simPick(s, waiting), 0, m)
	}
}
