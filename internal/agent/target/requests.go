package target

import (
	"errors"
	"fmt"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// requests is a session that makes spans of the requests of a process. A session with spans observes only the goroutines of requests, so it
// is another one than that of a watch.
type requests struct {
	session *loupe.Session
	engine  loupe.Engine
	buffer  int           // bytes
	ended   chan struct{} // closed when its events have ended
	retryAt time.Time     // after a failure
	err     error

	cost   loupe.HitCost
	before requestCounts
}

// requestCounts are what a session that makes spans has counted.
type requestCounts struct {
	received, lost, hits uint64
	delays               event.Delays
	incomplete           [len(incompleteLabels)]uint64
}

// incompleteLabels are what spans of requests lack, as the label lacks of metric.RequestsIncomplete has them.
var incompleteLabels = [...]string{"begin", "end", "work"}

// countRequests adds what the session has counted since the last call. All hits are taken to report something: few probes of requests do not.
func (t *Target) countRequests() {
	r, to := &t.requests, &t.sums
	stats, before := r.session.Stats(), r.before
	c, err := r.session.SpanCounts()
	if err != nil { // the next call adds what this one does not
		t.log.Warn("spans of requests cannot be counted", "pid", t.opt.PID, "err", err)
		return
	}
	now := requestCounts{hits: stats.Hits, delays: stats.Delays, received: stats.Events + c.Notes.Received + c.Routes.Received,
		lost: stats.Lost + c.Notes.Lost + c.Routes.Lost, incomplete: [...]uint64{c.Strays, c.Unobserved, c.Uncertain}}
	r.before = now
	to.mu.Lock()
	defer to.mu.Unlock()
	to.requests = true
	to.events += now.received - before.received
	to.lost += now.lost - before.lost
	to.hits += now.hits - before.hits
	to.probes += time.Duration(now.hits-before.hits) * (r.cost.Hit + r.cost.Event)
	to.addDelays(&now.delays, &before.delays)
	to.addPeak(r.session.BufferPeak(), time.Now())
	for i, n := range now.incomplete {
		to.incomplete[i] += n - before.incomplete[i]
	}
}

// observeRequests begins or ends to make spans, as the settings say.
func (t *Target) observeRequests() {
	t.mu.Lock()
	s, again := t.settings, t.againSpans
	t.againSpans = false
	t.mu.Unlock()
	want := s.Spans && t.opt.Span != nil
	if r := t.requests.session; r != nil {
		t.countRequests()
		select {
		case <-t.requests.ended: // the next step finds out why if the process has ended
		default:
			if want && t.requests.engine == s.Engine && t.requests.buffer == s.Buffer && !again {
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
	opt := loupe.SpanOptions{Handle: t.handle, Reuse: true, Sample: t.opt.Sample}
	if s.Engine == loupe.EngineInline {
		opt.Propagation = t.opt.Propagation
	}
	session, err := loupe.Attach(t.ctx, loupe.PID(t.opt.PID), loupe.Options{Engine: s.Engine, BufferBytes: s.Buffer, Spans: opt, Log: t.log})
	if err != nil {
		t.requests.retryAt = time.Now().Add(attachRetry)
		if t.ctx.Err() == nil {
			t.setRequestsError(fmt.Errorf("spans of requests: %w", err))
		}
		return
	}
	t.setRequestsError(nil)
	t.requests.session, t.requests.engine, t.requests.buffer, t.requests.ended = session, s.Engine, s.Buffer, make(chan struct{})
	t.requests.cost, t.requests.before = costOf(session, s.Engine), requestCounts{}
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
	t.countRequests()
	r.session = nil
}

// handle passes on a span of a request.
func (t *Target) handle(s *spans.Span) {
	t.durations.add(s)
	t.goroutines.served(s)
	t.opt.Span(s)
}
