package realtarget

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// requestTime is how long a program may take for one answer. Nothing that is
// asked takes a second; a program that was left stopped never answers.
const requestTime = time.Minute

// A client speaks a program's protocol over a connection of its own.
type client interface {
	// request asks for something, which n varies, and checks the answer.
	request(ctx context.Context, n int) error
	close()
}

// A Load is a number of clients that send requests one after the other.
type Load struct {
	workers  sync.WaitGroup
	stopping atomic.Bool
	answered atomic.Int64
	mu       sync.Mutex
	err      error // the first failure
}

// StartLoad lets the program work until the load is stopped.
func (p *Process) StartLoad() *Load {
	p.tb.Helper()
	l := new(Load)
	for range p.plan.loaders {
		ctx, cancel := context.WithTimeout(context.Background(), requestTime)
		c, err := p.plan.connect(ctx)
		cancel()
		if err != nil {
			_, _ = l.Stop()
			p.tb.Fatalf("realtarget: client of %s: %v%s", p.spec.Name, err, p.tail())
		}
		l.workers.Go(func() {
			defer c.close()
			l.work(c)
		})
	}
	return l
}

// work sends requests until the load is stopped or one fails.
func (l *Load) work(c client) {
	for n := 1; !l.stopping.Load(); n++ {
		ctx, cancel := context.WithTimeout(context.Background(), requestTime)
		err := c.request(ctx, n)
		cancel()
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.err == nil {
				l.err = fmt.Errorf("request %d: %w", n, err)
			}
			return
		}
		l.answered.Add(1)
	}
}

// Answered returns how many requests have been answered rightly so far.
func (l *Load) Answered() int64 { return l.answered.Load() }

// Await returns when n more requests have been answered. The test ends when one
// fails, or when the program does not answer any more.
func (l *Load) Await(tb testing.TB, n int64) {
	tb.Helper()
	last := l.Answered()
	enough := last + n
	for deadline := time.Now().Add(2 * requestTime); last < enough; {
		if err := l.failure(); err != nil {
			tb.Fatalf("realtarget: %v", err)
		}
		now := l.Answered()
		switch {
		case now > last:
			last, deadline = now, time.Now().Add(2*requestTime)
		case time.Now().After(deadline):
			tb.Fatalf("realtarget: no answer in %v", 2*requestTime)
		}
		time.Sleep(time.Millisecond)
	}
}

func (l *Load) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Stop waits for the requests under way and ends the load. It returns how many
// requests were answered rightly, and the first one that was not.
func (l *Load) Stop() (answered int64, err error) {
	l.stopping.Store(true)
	l.workers.Wait()
	return l.answered.Load(), l.failure()
}
