package sched

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
)

// span is a number of periods of similar duration in which a thread had a goroutine, or had none. wall is their total duration,
// and cpu the processor time of the thread in them.
type span struct {
	count     int
	wall, cpu time.Duration
}

// Measurements of three seconds of nats-server and caddy on two processors shared with other programs: probes of GoStart and
// GoBlock, and the kernel's thread switches.
var (
	natsStays = []span{
		{46806, 42250 * time.Microsecond, 42250 * time.Microsecond}, {29362, 198 * time.Millisecond, 198 * time.Millisecond},
		{23352, 324 * time.Millisecond, 324 * time.Millisecond}, {15947, 314 * time.Millisecond, 309 * time.Millisecond},
		{3426, 144 * time.Millisecond, 99 * time.Millisecond}, {1441, 130 * time.Millisecond, 56 * time.Millisecond},
		{778, 138 * time.Millisecond, 48 * time.Millisecond}, {315, 118 * time.Millisecond, 27 * time.Millisecond},
		{226, 173 * time.Millisecond, 18 * time.Millisecond}, {206, 594 * time.Millisecond, 32 * time.Millisecond},
	}
	natsGaps = []span{
		{95087, 128 * time.Millisecond, 128 * time.Millisecond}, {4733, 16 * time.Millisecond, 16 * time.Millisecond},
		{4989, 155 * time.Millisecond, 37 * time.Millisecond}, {8971, 361 * time.Millisecond, 71 * time.Millisecond},
		{5901, 552 * time.Millisecond, 68 * time.Millisecond}, {933, 154 * time.Millisecond, 16 * time.Millisecond},
		{301, 113 * time.Millisecond, 6 * time.Millisecond}, {346, 368 * time.Millisecond, 10 * time.Millisecond},
		{454, 2003 * time.Millisecond, 26 * time.Millisecond},
	}
	caddyStays = []span{
		{28222, 74 * time.Millisecond, 74 * time.Millisecond}, {14731, 132 * time.Millisecond, 132 * time.Millisecond},
		{7774, 182 * time.Millisecond, 181 * time.Millisecond}, {3275, 145 * time.Millisecond, 135 * time.Millisecond},
		{2320, 214 * time.Millisecond, 179 * time.Millisecond}, {1551, 290 * time.Millisecond, 148 * time.Millisecond},
		{1334, 502 * time.Millisecond, 151 * time.Millisecond}, {897, 654 * time.Millisecond, 155 * time.Millisecond},
		{762, 1916 * time.Millisecond, 249 * time.Millisecond},
	}
	caddyGaps = []span{
		{50338, 109 * time.Millisecond, 109 * time.Millisecond}, {4576, 26 * time.Millisecond, 26 * time.Millisecond},
		{825, 32 * time.Millisecond, 15 * time.Millisecond}, {867, 84 * time.Millisecond, 13 * time.Millisecond},
		{1249, 236 * time.Millisecond, 22 * time.Millisecond}, {1090, 412 * time.Millisecond, 23 * time.Millisecond},
		{867, 637 * time.Millisecond, 22 * time.Millisecond}, {910, 1884 * time.Millisecond, 26 * time.Millisecond},
	}
)

// TestShare simulates one thread with the measured periods, and compares the goroutines' share of the processor time with the
// measured share. During a garbage collection, a worker of the collector runs on the thread.
func TestShare(t *testing.T) {
	for _, test := range []struct {
		name        string
		stays, gaps []span
	}{{"nats", natsStays, natsGaps}, {"caddy", caddyStays, caddyGaps}} {
		for _, collects := range []bool{false, true} {
			name := test.name
			if collects {
				name += " with collections"
			}
			t.Run(name, func(t *testing.T) {
				s := &shareSim{m: New(Options{}), rng: rand.New(rand.NewPCG(1, 2)), now: 1e9, collects: collects}
				s.m.Account(s.usage())
				s.run(test.stays, test.gaps)
				c := s.m.Totals().Processor
				got, want := c.Goroutines.Seconds()/c.Process.Seconds(), float64(s.goroutines)/float64(s.ran)
				t.Logf("goroutines used %.3f of the processor time, in truth %.3f", got, want)
				if math.Abs(got-want) > 0.05 {
					t.Errorf("goroutines used %.3f of the processor time, in truth %.3f", got, want)
				}
			})
		}
	}
}

// shareSim simulates one thread that repeatedly runs one goroutine.
type shareSim struct {
	m               *Machine
	rng             *rand.Rand
	now             int64
	ran, goroutines int64 // processor time
	waited          int64
	accounted       int64
	collected       int64 // time of the last garbage collection
	collects        bool
}

func (s *shareSim) usage() event.Usage {
	return event.Usage{CPU: time.Duration(s.ran), Procs: 1, Threads: []event.ThreadUsage{{TID: 7, CPU: time.Duration(s.ran), Wait: time.Duration(s.waited)}}}
}

// run simulates periods with and without a goroutine, in random order.
func (s *shareSim) run(stays, gaps []span) {
	queue := func(spans []span) (list []span) {
		for _, sp := range spans {
			n := time.Duration(sp.count)
			for range sp.count / 4 { // a quarter is enough
				list = append(list, span{1, sp.wall / n, sp.cpu / n})
			}
		}
		s.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	}
	on, off := queue(stays), queue(gaps)
	s.m.Apply(&event.Event{Kind: event.GoStatus, G: 1, State: event.StateRunnable, Time: s.now})
	for i := range min(len(on), len(off)) {
		s.m.Apply(&event.Event{Kind: event.GoStart, G: 1, TID: 7, Time: s.now})
		s.pass(on[i])
		s.goroutines += int64(on[i].cpu)
		s.waited += int64(on[i].wall - on[i].cpu)
		s.m.Apply(&event.Event{Kind: event.GoBlock, G: 1, TID: 7, Reason: "select", Time: s.now})
		s.m.Apply(&event.Event{Kind: event.GoUnblock, G: 1, TID: 8, Time: s.now})
		s.pass(off[i])
		if s.collects && s.now-s.collected > int64(20*time.Millisecond) {
			s.collect()
		}
	}
	s.account()
}

func (s *shareSim) collect() {
	s.collected = s.now
	s.m.Apply(&event.Event{Kind: event.GCBegin, Time: s.now})
	s.pass(span{1, 3 * time.Millisecond, time.Millisecond})
	s.waited += int64(2 * time.Millisecond)
	s.m.Apply(&event.Event{Kind: event.GCEnd, Time: s.now})
}

func (s *shareSim) pass(sp span) {
	s.now += int64(sp.wall)
	s.ran += int64(sp.cpu)
	if s.now-s.accounted > int64(50*time.Millisecond) {
		s.account()
	}
}

func (s *shareSim) account() {
	s.accounted = s.now
	s.m.Advance(s.now)
	s.m.Account(s.usage())
}

// TestRunningWithoutThread covers a goroutine that runs on a thread that no event has named, because the goroutine changed its
// state while the initial states were read.
func TestRunningWithoutThread(t *testing.T) {
	m := New(Options{})
	m.Account(event.Usage{Procs: 1, Threads: []event.ThreadUsage{{TID: 7}}})
	m.Apply(&event.Event{Kind: event.GoStatus, G: 1, State: event.StateRunning, Time: 1})
	m.Apply(&event.Event{Kind: event.GoStatus, G: 2, State: event.StateRunnable, Time: 1})
	m.Apply(&event.Event{Kind: event.GoStart, G: 2, TID: 7, Time: 2})
	if n := m.Totals().States.Running; n != 1 {
		t.Errorf("%d goroutines run on 1 P", n)
	}
	if g, _ := m.Goroutine(2); g.State != event.StateRunning {
		t.Errorf("the goroutine that has just started is %s", g.State)
	}
}
