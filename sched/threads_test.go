package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// mpSim is a simulated scheduler with threads (Ms) and Ps. As in the runtime, a system call can lose its P and end with another
// P without an event.
type mpSim struct {
	rng      *rand.Rand
	observed bool // system calls are observed
	now      int64
	gs       []*mpG
	ms       []*mpM
	ps       []*mpP
	next     uint64
	emit     func(event.Event)
	truth    struct{ goroutines, all int64 }
}

type mpG struct {
	id           uint64
	state        event.State
	m            *mpM
	p            *mpP
	asleep       bool // its system call uses no processor
	contradicted bool // since its last event, an event showed another goroutine on its thread or its P
	lastM        *mpM // the thread of its last GoStart
	lastP        *mpP // the P of its last GoStart
}

type mpM struct {
	tid int32
	g   *mpG
	cpu int64
	use int64 // processor time that it will use to look for work before it sleeps
}

type mpP struct {
	id int32
	g  *mpG // the goroutine that runs on it, or has it during a system call
}

func newMPSim(seed uint64, observed bool, procs int, emit func(event.Event)) *mpSim {
	s := &mpSim{rng: rand.New(rand.NewPCG(seed, 11)), observed: observed, now: 1_700_000_000_000_000_000, emit: emit}
	for id := range procs {
		s.ps = append(s.ps, &mpP{id: int32(id)})
	}
	for range 3 * procs {
		s.next++
		g := &mpG{id: s.next, state: event.StateRunnable}
		s.gs = append(s.gs, g)
		s.emitOn(event.Event{Kind: event.GoStatus, G: g.id, State: g.state, Origin: mpOrigins[g.id%3]}, nil)
	}
	return s
}

var mpOrigins = []*event.Origin{{Start: event.Frame{Func: "main.a"}}, {Start: event.Frame{Func: "main.b"}}, {Start: event.Frame{Func: "runtime.c"}, System: true}}

// proved records that an event shows that the goroutine is running.
func (g *mpG) proved() {
	if g.contradicted {
		g.contradicted, g.lastP = false, nil // it has another P
	}
}

// emitOn emits an event that happens on a thread.
func (s *mpSim) emitOn(e event.Event, m *mpM) {
	e.Time = s.now
	if m != nil {
		e.TID = m.tid
	}
	s.emit(e)
}

func (s *mpSim) in(state event.State) []*mpG {
	var list []*mpG
	for _, g := range s.gs {
		if g.state == state {
			list = append(list, g)
		}
	}
	return list
}

func (s *mpSim) idleP() *mpP {
	for _, p := range s.ps {
		if p.g == nil {
			return p
		}
	}
	return nil
}

// idleM returns a thread without a goroutine. It adds a thread if there is none.
func (s *mpSim) idleM() *mpM {
	var idle []*mpM
	for _, m := range s.ms {
		if m.g == nil {
			idle = append(idle, m)
		}
	}
	if len(idle) > 0 {
		return pick(s.rng, idle)
	}
	m := &mpM{tid: int32(1000 + len(s.ms))}
	s.ms = append(s.ms, m)
	return m
}

// pass advances the time by d nanoseconds. Threads use processor time while they look for work, and while their goroutine does
// not sleep.
func (s *mpSim) pass(d int64) {
	s.now += d
	for _, m := range s.ms {
		if m.g == nil {
			use := min(m.use, d)
			m.use -= use
			m.cpu += use
			s.truth.all += use
		} else if !m.g.asleep {
			m.cpu += d
			s.truth.all += d
			if m.g.id%3 != 2 {
				s.truth.goroutines += d
			}
		}
	}
}

func (s *mpSim) step() {
	s.pass(1 + s.rng.Int64N(1<<s.rng.IntN(20)))
	running, runnable, calls, waiting := s.in(event.StateRunning), s.in(event.StateRunnable), s.in(event.StateSyscall), s.in(event.StateWaiting)
	p := s.idleP()
	switch n := s.rng.IntN(10); {
	case n < 4 && p != nil && len(runnable) > 0:
		s.start(pick(s.rng, runnable), p)
	case n < 7 && len(running) > 0:
		s.act(pick(s.rng, running), waiting)
	case n < 9 && len(calls) > 0:
		s.call(pick(s.rng, calls))
	case len(waiting) > 0: // the network poller
		g := pick(s.rng, waiting)
		g.state = event.StateRunnable
		s.emitOn(event.Event{Kind: event.GoUnblock, G: g.id}, s.idleM())
	}
}

func (s *mpSim) start(g *mpG, p *mpP) {
	m := s.idleM()
	for _, other := range s.gs {
		if other != g && (other.lastM == m || other.lastP == p) && (other.state == event.StateRunning || other.state == event.StateSyscall || other.state == event.StateRunnable) {
			other.contradicted = true
		}
	}
	g.state, g.m, g.p, g.lastM, g.lastP, g.contradicted = event.StateRunning, m, p, m, p, false
	m.g, p.g = g, g
	s.emitOn(event.Event{Kind: event.GoStart, G: g.id, P: event.ProcOf(p.id)}, m)
}

// leave removes a goroutine from its thread and its P.
func (s *mpSim) leave(g *mpG, to event.State) *mpM {
	m := g.m
	m.g, g.m, m.use = nil, nil, int64(40*time.Microsecond)
	if g.p != nil {
		g.p.g, g.p = nil, nil
	}
	g.state = to
	return m
}

func (s *mpSim) act(g *mpG, waiting []*mpG) {
	switch n := s.rng.IntN(12); {
	case n < 2:
		s.emitOn(event.Event{Kind: event.GoBlock, G: g.id, Reason: "select"}, s.leave(g, event.StateWaiting))
		g.lastM, g.lastP = nil, nil
	case n < 3:
		s.emitOn(event.Event{Kind: event.GoStop, G: g.id, Reason: event.StopPreempted}, s.leave(g, event.StateRunnable))
		g.lastM, g.lastP = nil, nil
	case n < 4 && len(s.gs) > 3:
		s.emitOn(event.Event{Kind: event.GoDestroy, G: g.id}, s.leave(g, ""))
		for i := range s.gs {
			if s.gs[i] == g {
				s.gs = append(s.gs[:i], s.gs[i+1:]...)
				break
			}
		}
	case n < 6:
		s.next++
		g.proved()
		s.gs = append(s.gs, &mpG{id: s.next, state: event.StateRunnable})
		s.emitOn(event.Event{Kind: event.GoCreate, G: s.next, Parent: g.id, Origin: mpOrigins[s.next%3]}, g.m)
	case n < 8 && len(waiting) > 0:
		other := pick(s.rng, waiting)
		g.proved()
		other.state = event.StateRunnable
		s.emitOn(event.Event{Kind: event.GoUnblock, G: other.id, By: g.id}, g.m)
	case n < 9:
		s.emitOn(event.Event{Kind: event.ChanSend, G: g.id, Object: 1}, g.m)
		g.proved()
	default:
		g.state, g.asleep = event.StateSyscall, s.rng.IntN(2) == 0
		if s.observed {
			g.proved()
			s.emitOn(event.Event{Kind: event.GoSyscallBegin, G: g.id}, g.m)
		}
	}
}

// call continues a system call: the goroutine loses its P, or the call ends.
func (s *mpSim) call(g *mpG) {
	if g.p != nil && s.rng.IntN(2) == 0 {
		g.p.g, g.p = nil, nil
		return
	}
	g.asleep = false
	m := g.m
	if g.p == nil {
		if p := s.idleP(); p != nil {
			g.p, p.g = p, g
		}
	}
	if g.p != nil {
		g.state = event.StateRunning
	} else {
		s.leave(g, event.StateRunnable)
	}
	if s.observed {
		g.proved()
		s.emitOn(event.Event{Kind: event.GoSyscallEnd, G: g.id}, m)
	}
}

func (s *mpSim) usage(look bool) event.Usage {
	u := event.Usage{CPU: time.Duration(s.truth.all), Procs: len(s.ps)}
	for _, m := range s.ms {
		u.Threads = append(u.Threads, event.ThreadUsage{TID: m.tid, CPU: time.Duration(m.cpu)})
	}
	if look {
		u.Running = map[uint64]event.Proc{}
		for _, p := range s.ps {
			if p.g != nil && p.g.state == event.StateRunning {
				u.Running[p.g.id] = event.ProcOf(p.id)
			}
		}
	}
	return u
}

// TestRunningIsBounded verifies after every event that the number of running goroutines does not exceed the number of Ps, and
// that no goroutine counts as running whose P or thread runs another goroutine. It runs with and without observed system
// calls, loss, and the state of the Ps in Usage.
func TestRunningIsBounded(t *testing.T) {
	for seed := range uint64(4 * seeds) {
		observed, lossy, look := seed&1 != 0, seed&2 != 0, seed&4 != 0
		procs := 1 + int(seed%5)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := New(Options{Kinds: simKinds(observed)})
			rng := rand.New(rand.NewPCG(seed, 3))
			lost, dropping := int64(0), 0
			var s *mpSim
			var off, sum int
			s = newMPSim(seed, observed, procs, func(e event.Event) {
				if lossy && e.Kind != event.GoStatus {
					if dropping == 0 && rng.IntN(200) == 0 {
						dropping = 1 + rng.IntN(20)
					}
					if dropping > 0 {
						dropping--
						lost++
						return
					}
					if lost > 0 {
						m.Apply(&event.Event{Kind: event.Lost, Time: e.Time, Value: lost})
						lost = 0
					}
				}
				m.Apply(&e)
			})
			m.Account(s.usage(look))
			for i := range 6000 {
				s.step()
				if i%100 == 50 {
					m.Advance(s.now)
					m.Account(s.usage(look))
				}
				states := m.Totals().States
				if int(states.Running) > procs {
					t.Fatalf("step %d: %d goroutines run on %d Ps", i, states.Running, procs)
				}
				off += max(int(states.Running)-len(s.in(event.StateRunning)), len(s.in(event.StateRunning))-int(states.Running))
				sum += len(s.in(event.StateRunning))
				if i%500 == 0 {
					check(t, m)
				}
				for _, g := range s.gs {
					if view, ok := m.Goroutine(g.id); ok && !lossy && view.State == event.StateRunning && g.contradicted {
						t.Fatalf("step %d: goroutine %d runs, its thread or P runs another (%s)", i, g.id, g.state)
					}
				}
			}
			m.Advance(s.now)
			m.Account(s.usage(look))
			check(t, m)
			total := m.Totals()
			c := total.Processor
			t.Logf("%d steps run, the count of those that run is off by %d; goroutines used %.3f of the processor, in truth %.3f; %d inferred, %d repairs",
				sum, off, c.Goroutines.Seconds()/c.Process.Seconds(), float64(s.truth.goroutines)/float64(s.truth.all), total.Inferred, total.Repairs)
			if c.Process != c.Goroutines.Add(c.Runtime) || c.Process.Duration() != time.Duration(s.truth.all) {
				t.Errorf("processor time %+v, in truth %d", c, s.truth.all)
			}
			if got, want := c.Goroutines.Seconds(), float64(s.truth.goroutines)/1e9; !lossy && (got < 0.9*want || got > 1.1*want) {
				t.Errorf("goroutines used %v s, in truth %v s", got, want)
			}
			if !lossy && total.Repairs > 0 {
				t.Errorf("%d repairs of a whole stream", total.Repairs)
			}
			if observed && !lossy && total.Done.Uncertain.Seconds() > 0.01*total.Done.Sum().Seconds() {
				t.Errorf("%v of %v are uncertain", total.Done.Uncertain.Duration(), total.Done.Sum().Duration())
			}
		})
	}
}
