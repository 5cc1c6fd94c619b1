package target

import (
	"errors"
	"fmt"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/spans"
)

// requests is a session that makes spans of the requests of a process. A session with spans observes only the goroutines of requests, so it
// is another one than that of a watch.
type requests struct {
	session *loupe.Session
	engine  loupe.Engine
	ended   chan struct{} // closed when its events have ended
	retryAt time.Time     // after a failure
	err     error
}

// observeRequests begins or ends to make spans, as the settings say.
func (t *Target) observeRequests() {
	t.mu.Lock()
	s, again := t.settings, t.againSpans
	t.againSpans = false
	t.mu.Unlock()
	want := s.Spans && t.opt.Span != nil
	if r := t.requests.session; r != nil {
		select {
		case <-t.requests.ended: // the next step finds out why if the process has ended
		default:
			if want && t.requests.engine == s.Engine && !again {
				return
			}
		}
		t.closeRequests()
	}
	if !want || time.Now().Before(t.requests.retryAt) {
		return
	}
	select {
	case t.opt.Attach <- struct{}{}:
		defer func() { <-t.opt.Attach }()
	case <-t.ctx.Done():
		return
	}
	opt := loupe.SpanOptions{Handle: t.handle, Sample: t.opt.Sample}
	if s.Engine == loupe.EngineInline {
		opt.Propagation = t.opt.Propagation
	}
	session, err := loupe.Attach(t.ctx, loupe.PID(t.opt.PID), loupe.Options{Engine: s.Engine, Spans: opt, Log: t.log})
	if err != nil {
		t.requests.retryAt = time.Now().Add(attachRetry)
		if t.ctx.Err() == nil {
			t.setRequestsError(fmt.Errorf("spans of requests: %w", err))
		}
		return
	}
	t.setRequestsError(nil)
	t.requests.session, t.requests.engine, t.requests.ended = session, s.Engine, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		for range session.Events() { // spans arrive with them
		}
	}(t.requests.ended)
}

func (t *Target) setRequestsError(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests.err = err
}

// closeRequests ends to make spans.
func (t *Target) closeRequests() {
	r := &t.requests
	if r.session == nil {
		return
	}
	if err := r.session.Close(); err != nil && !errors.Is(err, loupe.ErrExited) {
		t.log.Warn("cannot detach", "pid", t.opt.PID, "err", err)
	}
	<-r.ended
	r.session = nil
}

// handle passes on a span of a request.
func (t *Target) handle(s *spans.Span) {
	t.durations.add(s)
	t.goroutines.served(s)
	t.opt.Span(s)
}
