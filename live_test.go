package loupe_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestEveryRelease observes programs of every Go release, built in every way, while they make and end goroutines at full
// speed. No stream may show a goroutine do what it cannot do in its state, and the programs must come to the right result.
func TestEveryRelease(t *testing.T) {
	for _, spec := range testtarget.Matrix(t, "churn") {
		t.Run(spec.String(), func(t *testing.T) {
			if lack := spec.Unsupported(); lack != "" {
				t.Skip(lack)
			}
			target := testtarget.Start(t, testtarget.Build(t, spec))
			// At full speed there are more events than this test can check: the buffer keeps them until it has.
			c := observe(t, target.PID(), 300*time.Millisecond, loupe.Options{BufferBytes: 128 << 20})
			c.expectSound(t)
			if c.kinds[event.GoCreate] == 0 || c.kinds[event.GoDestroy] == 0 || c.kinds[event.GoBlock] == 0 {
				t.Errorf("churn was seen to do too little: %v", c.kinds)
			}
		})
	}
}

// observe attaches to a process for a while and checks the stream. It waits longer for the first hundred events of a program that is
// kept from running.
func observe(t *testing.T, pid int, d time.Duration, opt loupe.Options) *checker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := attachTo(ctx, loupe.PID(pid), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range s.Warnings() {
		t.Log(w)
	}
	go func() {
		for began := time.Now(); time.Since(began) < d || s.Stats().Events < 100 && time.Since(began) < 20*time.Second; {
			time.Sleep(10 * time.Millisecond)
		}
		s.Close()
	}()
	c := newChecker()
	for ev := range s.Events() {
		c.add(ev)
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	c.stats = s.Stats()
	return c
}

// checker follows the goroutines of a stream and collects what cannot be.
type checker struct {
	states map[uint64]event.State
	kinds  map[event.Kind]int
	wrong  []string
	waits  []time.Duration   // lengths that GoBlock tells
	last   map[uint64]string // by goroutine, its latest events
	stats  event.Stats
	lost   bool
	rule   sampling.Rule // after the last Resample
}

func newChecker() *checker {
	return &checker{states: map[uint64]event.State{}, kinds: map[event.Kind]int{}, last: map[uint64]string{}}
}

// moves says in which states a goroutine can do something, and to in which one it is then.
var moves = map[event.Kind]struct {
	from []event.State
	to   event.State
}{
	// A goroutine that ran can start again: it was in a system call, which is not observed, and had lost its P.
	event.GoStart:   {[]event.State{event.StateRunnable, event.StateRunning, event.StateSyscall}, event.StateRunning},
	event.GoStop:    {[]event.State{event.StateRunning, event.StateSyscall}, event.StateRunnable},
	event.GoBlock:   {[]event.State{event.StateRunning, event.StateSyscall}, event.StateWaiting},
	event.GoUnblock: {[]event.State{event.StateWaiting, event.StatePreempted}, event.StateRunnable},
	event.GoDestroy: {[]event.State{event.StateRunning, event.StateSyscall}, "gone"},
}

func (c *checker) add(ev *event.Event) {
	c.kinds[ev.Kind]++
	if ev.Kind == event.GoBlock && ev.Value != 0 {
		c.waits = append(c.waits, time.Duration(ev.Value))
	}
	if ev.Kind == event.Lost {
		c.lost = true
	}
	if ev.Kind == event.Resample {
		c.rule = sampling.OfShare(ev.Sampled())
		maps.DeleteFunc(c.states, func(g uint64, _ event.State) bool { return !c.rule.Selects(g) })
	}
	if ev.G == 0 || c.lost {
		return
	}
	c.last[ev.G] = tail(c.last[ev.G]+fmt.Sprintf(" %v(%s)", ev.Kind, ev.Reason), 300)
	switch ev.Kind {
	case event.GoStatus:
		c.states[ev.G] = ev.State
		return
	case event.GoCreate:
		if state, ok := c.states[ev.G]; ok && state != "gone" {
			c.report("goroutine %d is created while %s", ev.G, state)
		}
		c.states[ev.G] = event.StateRunnable
		if ev.State != "" {
			c.states[ev.G] = ev.State
		}
		if ev.Origin == nil || ev.Origin.Start.Func == "" {
			c.report("goroutine %d has no start function", ev.G)
		}
		return
	}
	move, ok := moves[ev.Kind]
	if !ok {
		return
	}
	state, known := c.states[ev.G]
	for _, from := range move.from {
		if state == from {
			c.states[ev.G] = move.to
			return
		}
	}
	c.states[ev.G] = move.to
	if !known {
		c.report("%v of unknown goroutine %d", ev.Kind, ev.G)
		return
	}
	c.report("%v of goroutine %d while %s:%s", ev.Kind, ev.G, state, c.last[ev.G])
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

func (c *checker) report(format string, args ...any) {
	if len(c.wrong) < 20 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// expectSound fails the test for what cannot be, and for numbers that do not add up.
func (c *checker) expectSound(t *testing.T) {
	t.Helper()
	if len(c.wrong) > 0 {
		t.Errorf("the stream cannot be:\n%s", strings.Join(c.wrong, "\n"))
	}
	if c.stats.Lost > 0 {
		t.Errorf("%d events lost: %v", c.stats.Lost, c.stats.Kinds)
	}
	c.expectAddsUp(t)
}

// expectAddsUp fails the test when numbers of events do not add up.
func (c *checker) expectAddsUp(t *testing.T) {
	t.Helper()
	for kind, n := range c.stats.Kinds {
		if n.Produced != n.Received+n.Lost {
			t.Errorf("%v: %+v does not add up", kind, n)
		}
	}
}
