package loupe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/sched"
)

// TestSample observes one of seven goroutines.
func TestSample(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	c := during(t, p, loupe.Options{SampleOneIn: 7}, "spawn 70000")
	c.expectSound(t)
	c.expect(t, event.GoCreate, 10000, 500) // five standard deviations
	rule := sampling.OneIn(7)
	for g := range c.states {
		if !rule.Selects(g) {
			t.Errorf("goroutine %d is observed", g)
		}
	}
}

// TestCountsSampled has targets create and end as many goroutines as they can. The counts are those of the target, whichever goroutines
// are sampled, which kinds of events are observed, and how many events are lost.
func TestCountsSampled(t *testing.T) {
	const each = 50_000
	for _, version := range testtarget.Among(t, "1.12.17", "1.23.12", testtarget.Latest()) {
		for _, opt := range []loupe.Options{
			{SampleOneIn: 100, StackDepth: -1},
			{SampleOneIn: 100, Kinds: event.KindsOf(event.GoCreate, event.GoDestroy)},
			{BufferBytes: 64 << 10, StackDepth: -1},
		} {
			t.Run(fmt.Sprintf("go%s/one in %d/%d kinds", version, opt.SampleOneIn, len(opt.Kinds.List())), func(t *testing.T) {
				p := startMill(t, version)
				s := attach(t, p.PID(), opt)
				p.Command(fmt.Sprint("spawn ", each)) // nobody reads the events
				p.Command(fmt.Sprint("spawn ", each))
				for numGoroutine(t, p) > 2 {
				}
				s.Detach()
				stats, peak := s.Stats(), s.BufferPeak()
				t.Logf("%d hits, %d events lost, %d created, %d ended", stats.Hits, stats.Lost, stats.Created, stats.Ended)
				if stats.Created != 2*each || stats.Ended != 2*each {
					t.Errorf("%d goroutines created, %d ended; the target made %d", stats.Created, stats.Ended, 2*each)
				}
				if lost := stats.Lost > 0; lost != (opt.BufferBytes > 0) {
					t.Errorf("%d events lost", stats.Lost)
				}
				if full := stats.BufferUsed > 0.9; full != (opt.BufferBytes > 0) || peak < stats.BufferUsed || peak > 1 {
					t.Errorf("%.3f of the buffer is used, at most %.3f was", stats.BufferUsed, peak)
				}
				if stats.Hits < 4*each {
					t.Errorf("%d hits, want %d or more", stats.Hits, 4*each)
				}
				for range s.Events() {
				}
				stats = s.Stats()
				if got, most := stats.Delays.Count(), stats.Events/64; got == 0 && most > 1 || got > most {
					t.Errorf("%d delays of %d events", got, stats.Events)
				}
				if least := stats.Delays.Quantile(0); stats.Delays.Count() > 0 && least < 100*time.Microsecond {
					t.Errorf("an event that nobody has read for long has a delay of %v or less", least)
				}
			})
		}
	}
}

// TestSampleChanges changes which goroutines are sampled while a program works. The stream has the events of no others, and fits the states
// of those that begin to be sampled. At the end all goroutines are sampled again, and known.
func TestSampleChanges(t *testing.T) {
	for _, c := range []struct {
		program string
		args    []string
		kinds   event.Kinds
	}{
		{"churn", []string{"2"}, event.KindsDefault},
		{"coder", []string{"40", "mixed"}, event.KindsDefault.Union(event.KindsSyscall, event.KindsChannel)},
	} {
		t.Run(c.program, func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: c.program}), c.args...)
			sampleChanges(t, p, loupe.Options{Kinds: c.kinds, SampleOneIn: 3, BufferBytes: 64 << 20})
		})
	}
}

// TestSampleUnread samples fewer goroutines while nobody reads the events: the probes do so at once.
func TestSampleUnread(t *testing.T) {
	const n = 20_000
	p := startMill(t, testtarget.Latest())
	s := attach(t, p.PID(), loupe.Options{})
	if err := s.Sample(0); err == nil {
		t.Error("a ratio of 0")
	}
	if err := s.Sample(0.01); err != nil {
		t.Fatal(err)
	}
	p.Command(fmt.Sprint("spawn ", n))
	if made := s.Stats().Kinds[event.GoCreate].Produced; made < n/200 || made > n/50 {
		t.Errorf("%d of %d goroutines are sampled, want about 1 %%", made, n)
	}
	rule, err := sampling.Of(0.01)
	if err != nil {
		t.Fatal(err)
	}
	fell := false
	for ev := range s.Events() {
		switch {
		case ev.Kind == event.Resample:
			fell = true
			s.Detach()
		case ev.Kind == event.GoCreate && !rule.Selects(ev.G):
			t.Errorf("goroutine %d is in the stream", ev.G)
		}
	}
	if !fell {
		t.Error("no Resample")
	}
}

func sampleChanges(t *testing.T, p *testtarget.Process, opt loupe.Options) {
	s := attach(t, p.PID(), opt)
	c, m := newChecker(), sched.New(sched.Options{Kinds: opt.Kinds})
	c.rule = sampling.OneIn(opt.SampleOneIn)
	resampled, done := make(chan sampling.Rule, 1000), make(chan struct{})
	go func() {
		defer close(done)
		for ev := range s.Events() {
			c.add(ev)
			m.Apply(ev)
			if ev.Kind == event.Resample {
				resampled <- c.rule
			}
			if ev.G != 0 && !c.rule.Selects(ev.G) && event.KindsGoroutine.Has(ev.Kind) {
				c.report("%v of goroutine %d, which is not sampled", ev.Kind, ev.G)
			}
		}
	}()
	sample := func(ratio float64) {
		if err := s.Sample(ratio); err != nil {
			t.Fatal(err)
		}
	}
	await := func(ratio float64) (others int) {
		want, err := sampling.Of(ratio)
		if err != nil {
			t.Fatal(err)
		}
		for rule := range resampled {
			if rule == want {
				break
			}
			others++
		}
		return others
	}
	for _, ratio := range []float64{1, 0.1, 0.5, 0.01, 0.2, 1, 0.05} {
		sample(ratio)
		if others := await(ratio); others > 0 {
			t.Errorf("%d other changes before that to %v", others, ratio)
		}
	}
	for range 20 { // faster than the reader
		sample(1)
		sample(0.1)
	}
	for _, ratio := range []float64{0.3, 1} {
		sample(ratio)
		await(ratio)
	}
	if got := s.SampleRatio(); got != 1 {
		t.Errorf("the ratio is %v, want 1", got)
	}
	observed, err := s.Observed()
	if err != nil {
		t.Fatal(err)
	}
	s.Detach()
	<-done
	s.Close()
	c.stats = s.Stats()
	c.expectSound(t)
	alive := 0
	for _, state := range c.states {
		if state != "gone" {
			alive++
		}
	}
	total := m.Totals()
	t.Logf("%d alive, %d unsampled, %d created of %d, %d ended of %d, %d events", alive, total.Unsampled, total.Created, c.stats.Created, total.Ended, c.stats.Ended, total.Events)
	if total.Live != uint64(alive) || total.Unsampled == 0 || total.Found != 0 || total.EndedUnseen != 0 {
		t.Errorf("%d live, %d unsampled, %d found, %d ended unseen; %d are alive", total.Live, total.Unsampled, total.Found, total.EndedUnseen, alive)
	}
	for _, g := range observed {
		if _, known := c.states[g]; !known {
			t.Errorf("goroutine %d is alive, and unknown", g)
		}
	}
	if total.Created > c.stats.Created || total.Ended > c.stats.Ended {
		t.Errorf("more goroutines are in the stream than in the counts")
	}
}
