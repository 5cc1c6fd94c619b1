// Package spanstest helps tests to observe the requests of a program.
//
// The central type is [Session].
package spanstest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/spans"
)

// A Session observes a process until the test ends, and keeps the spans that have ended.
type Session struct {
	*loupe.Session
	t testing.TB

	mu    sync.Mutex
	spans []*spans.Span
}

// Attach observes a process. Spans.Handle of the options must not be set. What must be closed while the process is still observed, such as
// connections to it, can be closed by a t.Cleanup after Attach.
func Attach(t testing.TB, pid int, opt loupe.Options) *Session {
	t.Helper()
	o := &Session{t: t}
	opt.Spans.Handle = o.add
	ctx, stop := context.WithCancel(context.Background())
	s, err := loupe.Attach(ctx, loupe.PID(pid), opt)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	o.Session = s
	var done sync.WaitGroup
	done.Go(func() {
		for range s.Events() {
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *Session) add(s *spans.Span) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans = append(o.spans, s)
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
