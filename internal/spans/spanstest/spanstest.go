// Package spanstest helps tests to observe the requests of a program.
//
// The central type is [Session].
package spanstest

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// Engines are both engines.
func Engines() []loupe.Engine { return []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} }

// Run runs a test of a build with each of some engines. eBPF requires root.
func Run(t *testing.T, spec testtarget.Spec, engines []loupe.Engine, test func(t *testing.T, engine loupe.Engine)) {
	t.Helper()
	for _, engine := range engines {
		t.Run(string(engine)+"/"+spec.String(), func(t *testing.T) {
			if engine == loupe.EngineUprobe && os.Getuid() != 0 {
				t.Skip("eBPF requires root")
			}
			test(t, engine)
		})
	}
}

// A Session observes a process until the test ends, and keeps the spans that have ended.
type Session struct {
	*loupe.Session
	t    testing.TB
	done sync.WaitGroup // the goroutine that iterates over the events

	mu    sync.Mutex
	spans []*spans.Span
}

// Attach observes a process. Spans.Handle of the options must not be set. What must be closed while the process is still observed, such as
// connections to it, can be closed by a t.Cleanup after Attach.
func Attach(t testing.TB, pid int, opt loupe.Options) *Session {
	t.Helper()
	o := &Session{t: t}
	opt.Spans.Handle, opt.Spans.Reuse = o.add, true
	ctx, stop := context.WithCancel(context.Background())
	s, err := loupe.Attach(ctx, loupe.PID(pid), opt)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	o.Session = s
	o.done.Go(func() {
		for range s.Events() {
		}
	})
	t.Cleanup(func() {
		stop()
		o.done.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *Session) add(s *spans.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans = append(o.spans, s.Clone())
}

// NoWarnings fails the test if there are warnings, except for those that are about the machine.
func (o *Session) NoWarnings() {
	o.t.Helper()
	for _, w := range o.Warnings() {
		if w.Kind != event.WarnTimes && w.Kind != event.WarnState { // not every machine has a reliable counter, or is idle
			o.t.Errorf("warning: %s", w)
		}
	}
}

// End ends the observation, and returns all spans that have ended since the last call of Take.
func (o *Session) End() []*spans.Span {
	o.t.Helper()
	if err := o.Detach(); err != nil {
		o.t.Error(err)
	}
	o.done.Wait()
	return o.Take(0)
}

// patience is how long Take waits.
const patience = 20 * time.Second

// Take waits until n spans have ended, and returns all that have ended since the last call. It returns fewer if it has waited for long.
func (o *Session) Take(n int) []*spans.Span {
	o.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		o.mu.Lock()
		list := o.spans
		if len(list) >= n || time.Now().After(end) {
			o.spans = nil
			o.mu.Unlock()
			return list
		}
		o.mu.Unlock()
	}
}
