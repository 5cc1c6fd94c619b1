package live

import (
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/sched"
)

// fakeSource is a source of events that a test sends.
type fakeSource struct {
	events chan event.Event
	closed chan struct{}
	close  sync.Once

	mu         sync.Mutex // guards the fields below
	err        error
	stats      event.Stats
	warnings   []event.Warning
	alive      []uint64
	aliveErr   error
	aliveCalls int // number of calls of Alive
	usage      event.Usage
	usageErr   error
}

func newSource() *fakeSource {
	return &fakeSource{events: make(chan event.Event), closed: make(chan struct{})}
}

func (s *fakeSource) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		for {
			select {
			case e, more := <-s.events:
				if !more || !yield(&e) {
					return
				}
				e = event.Event{} // an event is valid until the next one
			case <-s.closed:
				return
			}
		}
	}
}

// set changes the results of the methods.
func (s *fakeSource) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// lose counts n events as lost, and sends a Lost event.
func (s *fakeSource) lose(n int) {
	s.set(func() { s.stats.Lost += uint64(n) })
	s.send(event.Event{Kind: event.Lost, Value: int64(n)})
}

// send sends an event with the current time.
func (s *fakeSource) send(e event.Event) {
	e.Time = time.Now().UnixNano()
	s.events <- e
}

// create sends the events of n goroutines with consecutive IDs, from first on, which are created and wait for a reason.
func (s *fakeSource) create(first, n uint64, reason string) {
	for g := first; g < first+n; g++ {
		s.send(event.Event{Kind: event.GoCreate, G: g, Origin: leakOrigin, Stack: stackMake})
		s.send(event.Event{Kind: event.GoStart, G: g})
		s.send(event.Event{Kind: event.GoBlock, G: g, Reason: reason, Stack: stackSend})
	}
}

func locked[T any](mu *sync.Mutex, value *T) T {
	mu.Lock()
	defer mu.Unlock()
	return *value
}

func (s *fakeSource) Err() error                { return locked(&s.mu, &s.err) }
func (s *fakeSource) Stats() event.Stats        { return locked(&s.mu, &s.stats) }
func (s *fakeSource) Warnings() []event.Warning { return locked(&s.mu, &s.warnings) }
func (s *fakeSource) Usage() (event.Usage, error) {
	return locked(&s.mu, &s.usage), locked(&s.mu, &s.usageErr)
}

func (s *fakeSource) Alive() ([]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliveCalls++
	return s.alive, s.aliveErr
}

func (s *fakeSource) Detach() error {
	s.close.Do(func() { close(s.closed) })
	return nil
}

func (s *fakeSource) Close() error { return s.Detach() }

// A lateSource has an event in its buffer, and its iteration begins only after it was detached.
type lateSource struct {
	*fakeSource
	discarded atomic.Bool
}

func (s *lateSource) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		<-s.closed
		if time.Sleep(time.Second); !s.discarded.Load() {
			yield(&event.Event{Kind: event.GoCreate, G: 7, Time: time.Now().UnixNano()})
		}
	}
}

func (s *lateSource) Close() error {
	s.discarded.Store(true)
	return s.Detach()
}

// TestCloseEarly closes an observation before the iteration over the events has begun.
func TestCloseEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lateSource{fakeSource: newSource()}
		o := Observe(s, Options{})
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if got := o.Machine().Totals().Live; got != 1 {
			t.Errorf("%d goroutines, want 1", got)
		}
		if !s.discarded.Load() {
			t.Error("the source is not closed")
		}
	})
}

// take returns a picture that includes all events that sources have sent.
func take(o *Observation, q Query) *Picture {
	synctest.Wait()
	return o.Take(q)
}

// expectLive compares the numbers of goroutines that are alive, uncertain, and ended by Reconcile.
func expectLive(t *testing.T, when string, o *Observation, live, uncertain, reconciled uint64) {
	t.Helper()
	got := take(o, Query{}).Totals
	if got.Live != live || got.States.Uncertain != uncertain || got.Reconciled != reconciled {
		t.Errorf("%s: %d goroutines, %d uncertain, %d ended unseen; want %d, %d, %d", when, got.Live, got.States.Uncertain, got.Reconciled, live, uncertain, reconciled)
	}
}

// TestRepair loses the ends of goroutines. The goroutines must end as soon as Alive succeeds, and Alive must be called only after
// a loss, until it succeeds.
func TestRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		o := Observe(s, Options{})
		defer o.Close()
		s.create(1, 3, "select")
		time.Sleep(3*repairEvery + repairEvery/2)
		if s.aliveCalls != 0 {
			t.Error("the source was asked although nothing was lost")
		}
		s.lose(4)
		s.set(func() { s.alive, s.aliveErr = []uint64{1, 3}, errors.New("not now") })
		time.Sleep(3 * repairEvery)
		expectLive(t, "without an answer", o, 3, 3, 0)
		s.set(func() { s.aliveErr = nil })
		time.Sleep(2 * repairEvery)
		expectLive(t, "with an answer", o, 2, 2, 1)
		asked := s.aliveCalls
		s.set(func() { s.alive = nil })
		time.Sleep(3 * repairEvery)
		expectLive(t, "without another loss", o, 2, 2, 1)
		if s.aliveCalls != asked {
			t.Errorf("asked %d times more although nothing more was lost", s.aliveCalls-asked)
		}
		s.send(event.Event{Kind: event.GoUnblock, G: 3})
		expectLive(t, "after an event", o, 2, 1, 1)
	})
}

// TestRepairAtLoss loses the ends of goroutines that were created at the time of the loss.
func TestRepairAtLoss(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, repairEvery - time.Millisecond, repairEvery + time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := newSource()
			o := Observe(s, Options{})
			defer o.Close()
			time.Sleep(after)
			s.create(1, 3, "select")
			s.lose(1)
			s.set(func() { s.alive = []uint64{2} })
			time.Sleep(4 * repairEvery)
			expectLive(t, after.String(), o, 1, 1, 2)
		})
	}
}

// TestRepairKeepsNewGoroutines creates a goroutine while the source reads the live goroutines. The goroutine must not end.
func TestRepairKeepsNewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		o := Observe(s, Options{})
		defer o.Close()
		s.create(1, 2, "select")
		s.lose(1)
		s.set(func() { s.alive = []uint64{2} })
		time.Sleep(2*repairEvery - time.Millisecond)
		s.create(3, 1, "select")
		s.lose(1)
		time.Sleep(2 * time.Millisecond)
		expectLive(t, "created after the source was asked", o, 2, 2, 1)
	})
}

// TestEnds observes sources that end in different ways. The state must not change after the end.
func TestEnds(t *testing.T) {
	failure := errors.New("it became another program")
	for name, test := range map[string]struct {
		end  func(*fakeSource, *Observation)
		want error
	}{
		"exit":    {func(s *fakeSource, _ *Observation) { close(s.events) }, nil},
		"failure": {func(s *fakeSource, _ *Observation) { s.set(func() { s.err = failure }); close(s.events) }, failure},
		"close":   {func(_ *fakeSource, o *Observation) { o.Close() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSource()
				s.usage = event.Usage{CPU: time.Second, Procs: 1, Threads: []event.ThreadUsage{{TID: 7}}}
				o := Observe(s, Options{})
				s.create(1, 2, "select")
				before := take(o, Query{})
				if !before.Totals.Processor.Known {
					t.Error("the usage was not taken")
				}
				time.Sleep(time.Second)
				s.create(3, 1, "select")
				select {
				case <-o.Done():
					t.Fatal("done before the end")
				default:
				}
				test.end(s, o)
				<-o.Done()
				s.set(func() { s.usage.RSS = 1 })
				first := take(o, Query{})
				time.Sleep(time.Minute)
				last := take(o, Query{})
				if first.Totals.Live != 3 || last.Now != first.Now || last.Totals.Processor.RSS != 0 || last.Now-before.Now != int64(time.Second) {
					t.Errorf("%d goroutines, time goes on by %v, %+v", first.Totals.Live, time.Duration(last.Now-first.Now), last.Totals.Processor)
				}
				if err := o.Err(); err != test.want {
					t.Errorf("ended with %v, want %v", err, test.want)
				}
				if live := o.Machine().Totals().Live; live != 3 {
					t.Errorf("the machine has %d goroutines", live)
				}
				for range 2 {
					if err := o.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestHealth verifies that pictures contain the losses and warnings of the source.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		o := Observe(s, Options{})
		defer o.Close()
		if h := take(o, Query{}).Health; h.Lost != 0 || h.Unreadable != 0 || h.Warnings != nil {
			t.Errorf("%+v", h)
		}
		s.set(func() {
			s.stats = event.Stats{Lost: 5, Unreadable: 2, Err: errors.New("no counters")}
			s.warnings, s.usageErr = []event.Warning{event.Warnf(event.WarnMissing, "a probe is missing")}, errors.New("no threads")
		})
		h := take(o, Query{}).Health
		want := []string{"a probe is missing", "processor time and running goroutines are less accurate: no threads", "more events may have been lost: no counters"}
		if h.Lost != 5 || h.Unreadable != 2 || len(h.Warnings) != len(want) {
			t.Fatalf("%+v", h)
		}
		for i := range want {
			if h.Warnings[i].Text != want[i] {
				t.Errorf("%q, want %q", h.Warnings[i], want[i])
			}
		}
		s.set(func() { s.stats.Err, s.usageErr, s.usage.Err = nil, nil, errors.New("no Ps") })
		if h := take(o, Query{}).Health; len(h.Warnings) != 2 || h.Warnings[1].Text != "processor time and running goroutines are less accurate: no Ps" {
			t.Errorf("%+v", h)
		}
		s.set(func() { s.usage.Err = nil })
		if h := take(o, Query{}).Health; len(h.Warnings) != 1 {
			t.Errorf("%+v", h)
		}
	})
}

// TestLateEvents sends events that are older than a picture after the picture was taken. The next picture must include them, and
// its time must not be earlier.
func TestLateEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		o := Observe(s, Options{Window: time.Millisecond})
		defer o.Close()
		s.create(1, 1, "select")
		old := time.Now().UnixNano()
		time.Sleep(time.Second)
		before := take(o, Query{})
		s.events <- event.Event{Kind: event.GoUnblock, Time: old + 1, G: 1}
		s.events <- event.Event{Kind: event.GoStart, Time: old + 2, G: 1}
		s.events <- event.Event{Kind: event.GoDestroy, Time: old + 3, G: 1}
		time.Sleep(time.Second)
		after := take(o, Query{})
		if after.Now-before.Now < int64(time.Second) || after.Totals.Live != 0 || after.TotalsDelta.Ended != 1 {
			t.Errorf("%v later: %d goroutines, %d ended", time.Duration(after.Now-before.Now), after.Totals.Live, after.TotalsDelta.Ended)
		}
	})
}

// TestMany observes three programs at the same time, each with its own limits. They have the same goroutine IDs. One of them
// loses events.
func TestMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type observed struct {
			source *fakeSource
			state  sched.Options
			*Observation
		}
		all := []observed{{state: sched.Options{History: 4}}, {state: sched.Options{History: 1000}}, {state: sched.Options{MaxGoroutines: 10}}}
		reasons := []string{"select", "chan send", "sleep"}
		for i := range all {
			o := &all[i]
			o.source = newSource()
			o.source.usage = event.Usage{CPU: time.Duration(i+1) * time.Second, Procs: i + 1, RSS: int64(i+1) << 20, Threads: []event.ThreadUsage{{TID: 7}}}
			o.Observation = Observe(o.source, Options{State: o.state})
			defer o.Close()
		}
		var senders sync.WaitGroup
		for i := range all {
			senders.Go(func() { all[i].source.create(1, uint64(20*(i+1)), reasons[i]) })
		}
		senders.Wait()
		for i := range all { // only the goroutines with odd IDs are alive
			all[i].source.set(func() {
				for g := uint64(1); g <= uint64(20*(i+1)); g += 2 {
					all[i].source.alive = append(all[i].source.alive, g)
				}
			})
		}
		all[1].source.lose(30)
		time.Sleep(4 * repairEvery)
		for i, want := range []struct {
			live, untracked, lost, reconciled uint64
			history                           int
		}{{live: 20, history: 3}, {live: 20, lost: 30, reconciled: 20, history: 3}, {live: 10, untracked: 150}} {
			p := take(all[i].Observation, Query{About: AboutGroups})
			one := take(all[i].Observation, Query{About: AboutOne, ID: 1}).Detail.One
			last := take(all[i].Observation, Query{About: AboutOne, ID: uint64(20 * (i + 1))}).Detail.One
			got := p.Totals
			if got.Live != want.live || got.Untracked != want.untracked || p.Health.Lost != want.lost || got.Lost != want.lost || got.Reconciled != want.reconciled {
				t.Errorf("%d: %d goroutines, %d untracked, %d and %d lost, %d ended unseen; want %+v", i, got.Live, got.Untracked, got.Lost, p.Health.Lost, got.Reconciled, want)
			}
			if len(p.Detail.Groups) != 1 || p.Detail.Groups[0].Reason != reasons[i] || !one.Alive || one.Reason != reasons[i] {
				t.Errorf("%d: %+v, %+v", i, p.Detail.Groups, one.Goroutine)
			}
			if len(last.History) != want.history {
				t.Errorf("%d: a history of %d events, want %d", i, len(last.History), want.history)
			}
			if cpu := got.Processor; cpu.Procs != i+1 || cpu.RSS != int64(i+1)<<20 {
				t.Errorf("%d: %+v", i, cpu)
			}
			if asked := all[i].source.aliveCalls > 0; asked != (want.lost > 0) {
				t.Errorf("%d: asked which goroutines are alive: %v", i, asked)
			}
		}
		all[1].Close()
		select {
		case <-all[0].Done():
			t.Error("closing one ends another")
		case <-all[2].Done():
			t.Error("closing one ends another")
		case <-all[1].Done():
		}
		for i := range all {
			if i != 1 {
				all[i].source.send(event.Event{Kind: event.GoUnblock, G: 1})
				if p := take(all[i].Observation, Query{}); p.Totals.States.Runnable != 1 {
					t.Errorf("%d: events no longer arrive: %+v", i, p.Totals.States)
				}
			}
		}
		if p := take(all[1].Observation, Query{}); p.Totals.Live != 20 {
			t.Errorf("the closed one has %d goroutines", p.Totals.Live)
		}
	})
}
