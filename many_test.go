package loupe_test

import (
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// slowSource is a session whose events are not read while a lock is held.
type slowSource struct {
	*loupe.Session
	reading sync.Mutex
}

func (s *slowSource) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		for e := range s.Session.Events() {
			s.reading.Lock()
			more := yield(e)
			s.reading.Unlock()
			if !more {
				return
			}
		}
	}
}

// oneOfMany is one of many programs under observation.
type oneOfMany struct {
	*live.Observation
	target *testtarget.Process
	source *slowSource
}

func observeMill(t *testing.T, buffer int, state sched.Options) *oneOfMany {
	t.Helper()
	p := startMill(t, testtarget.Latest())
	o := &oneOfMany{target: p, source: &slowSource{Session: attach(t, p.PID(), loupe.Options{BufferBytes: buffer})}}
	o.Observation = live.Observe(o.source, live.Options{State: state})
	t.Cleanup(func() { o.Close() })
	return o
}

// await takes pictures until one is as it should be.
func (o *oneOfMany) await(t *testing.T, q live.Query, what string, is func(*live.Picture) bool) *live.Picture {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		p := o.Take(q)
		if is(p) {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d: never %s: %+v", o.target.PID(), what, p.Totals)
		}
	}
}

func (o *oneOfMany) awaitCreated(t *testing.T, n uint64) *live.Picture {
	t.Helper()
	return o.await(t, live.Query{}, fmt.Sprintf("%d goroutines created", n), func(p *live.Picture) bool { return p.Totals.Created >= n })
}

// TestManyTargets observes three programs at once, with different limits. One of them loses events, among them the ends of
// goroutines. The states do not mix, the right one is repaired, and closing it leaves the others going.
func TestManyTargets(t *testing.T) {
	oneEngine(t)
	const spawned, held, flood = 1000, 5, 50_000
	exact := observeMill(t, 0, sched.Options{})
	lossy := observeMill(t, 64<<10, sched.Options{})
	bounded := observeMill(t, 0, sched.Options{History: 300, MaxGoroutines: 4})

	lossy.target.Command(fmt.Sprint("threads ", held))
	lossy.awaitCreated(t, held)
	lossy.source.reading.Lock()
	lossy.target.Command(fmt.Sprint("spawn ", flood))
	lossy.target.Command("threads 0")
	exact.target.Command(fmt.Sprint("spawn ", spawned))
	bounded.target.Command(fmt.Sprint("threads ", held))
	exact.awaitCreated(t, spawned)
	bounded.await(t, live.Query{}, "too many goroutines", func(p *live.Picture) bool { return p.Totals.Untracked > 0 })
	lossy.source.reading.Unlock()

	holding := live.Query{About: live.AboutGoroutines, Filter: "mill).hold"}
	repaired := lossy.await(t, holding, "repaired", func(p *live.Picture) bool {
		if p.Totals.Losses == 0 {
			lossy.target.Command("spawn 1") // once there is room for its events, they say that others were lost
		}
		return p.Detail.Matched == 0 && p.Totals.Reconciled >= held
	})
	if repaired.Health.Lost == 0 || repaired.Totals.Created >= held+flood {
		t.Errorf("%d events lost, %d goroutines created", repaired.Health.Lost, repaired.Totals.Created)
	}
	for _, o := range []struct {
		*oneOfMany
		created uint64
		history int
		tooFew  bool
	}{{oneOfMany: exact, created: spawned}, {oneOfMany: bounded, history: 300, tooFew: true}} {
		p := o.Take(live.Query{})
		holds, _ := o.Machine().HistorySize()
		if p.Health.Lost != 0 || p.Totals.Reconciled != 0 || p.Totals.States.Uncertain != 0 || holds < o.history || holds > 0 && o.history == 0 {
			t.Errorf("process %d: %+v, %+v, a history of %d events", o.target.PID(), p.Health, p.Totals, holds)
		}
		if untracked := p.Totals.Untracked > 0; untracked != o.tooFew || p.Totals.Created != o.created && !o.tooFew {
			t.Errorf("process %d: %+v", o.target.PID(), p.Totals)
		}
		if c := p.Totals.Processor; !c.Known || c.Procs == 0 || c.RSS == 0 {
			t.Errorf("process %d: %+v", o.target.PID(), c)
		}
	}

	if err := lossy.Close(); err != nil {
		t.Error(err)
	}
	<-lossy.Done()
	exact.target.Command("spawn 100")
	if p := exact.awaitCreated(t, spawned+100); p.Totals.Created != spawned+100 || p.Health.Lost != 0 {
		t.Errorf("%d goroutines created, %d events lost", p.Totals.Created, p.Health.Lost)
	}
	before := bounded.Take(live.Query{}).Totals.Ended
	bounded.target.Command("threads 0")
	bounded.await(t, live.Query{}, "ended", func(p *live.Picture) bool { return p.Totals.Ended > before })
	if got := lossy.target.Command("spawn 100"); got == "" {
		t.Error("the program no longer answers")
	}
	if last := lossy.Take(live.Query{}); last.Totals.Created < repaired.Totals.Created || last.Totals.Created >= held+flood {
		t.Errorf("the state of the closed one: %+v", last.Totals)
	}
}
