package target

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/sampling"
	"github.com/loupe-go/loupe/spans"
)

// A GoroutineSpan is a part of the life of a goroutine: a long wait, or all of it.
type GoroutineSpan struct {
	G          uint64
	Name       string // the wait reason, or "goroutine" and the function that it was started with
	Start, End int64  // nanoseconds since the Unix epoch
	Site       string // the go statement that created it; empty if unknown
	At         string // for a wait: the function that waits; empty if unknown
	Parent     trace.SpanContext
}

// goroutines makes spans of the goroutines of a process. It keeps what has begun, bounded, of a part of the goroutines.
type goroutines struct {
	emit func(GoroutineSpan)

	mu      sync.Mutex
	least   time.Duration // of the life of a goroutine, or a wait
	rule    sampling.Rule // which goroutines; that of the probes selects the same ones first
	off     bool          // none
	begun   map[uint64]*life
	held    []heldSpan // spans that a request may be the parent of
	dropped uint64     // goroutines that had no room
}

// life is a goroutine that is alive.
type life struct {
	since   int64 // 0: before the observation
	origin  *event.Origin
	blocked int64 // 0: it does not wait
	reason  string
	at      string
}

type heldSpan struct {
	GoroutineSpan
	until time.Time // by the monotonic clock
}

const (
	maxLives  = 10_000
	maxHeld   = 10_000
	leastWait = 100 * time.Millisecond // of waits that are spans
	holdFor   = 5 * time.Second        // for which a wait is held until the request ends that it is part of
)

// settings changes which goroutines have spans. No part means none.
func (s *goroutines) settings(least time.Duration, part float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rule, err := sampling.Of(part)
	s.least, s.off, s.rule = least, err != nil, rule // 0 is no valid part
	if s.off {
		s.begun = nil
	}
}

// add adds an event.
func (s *goroutines) add(e *event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off || e.G == 0 || !s.rule.Selects(e.G) {
		return
	}
	switch e.Kind {
	case event.GoCreate, event.GoStatus:
		if s.begun == nil {
			s.begun = map[uint64]*life{}
		}
		if len(s.begun) >= maxLives {
			s.dropped++
			return
		}
		l := &life{origin: e.Origin}
		if e.Kind == event.GoCreate {
			l.since = e.Time
		}
		s.begun[e.G] = l
	case event.GoBlock:
		if l := s.begun[e.G]; l != nil {
			l.blocked, l.reason, l.at = e.Time, e.Reason, ""
			if e.Stack != nil && len(e.Stack.Frames) > 0 {
				l.at = e.Stack.Frames[0].Func
			}
		}
	case event.GoUnblock:
		if l := s.begun[e.G]; l != nil && l.blocked != 0 {
			if time.Duration(e.Time-l.blocked) >= max(leastWait, s.least) {
				s.hold(GoroutineSpan{G: e.G, Name: l.reason, Start: l.blocked, End: e.Time, Site: siteName(l.origin), At: l.at})
			}
			l.blocked = 0
		}
	case event.GoDestroy:
		l := s.begun[e.G]
		delete(s.begun, e.G)
		if l != nil && l.since != 0 && time.Duration(e.Time-l.since) >= s.least {
			name := "goroutine"
			if l.origin != nil && l.origin.Start.Func != "" {
				name += " " + l.origin.Start.Func
			}
			s.hold(GoroutineSpan{G: e.G, Name: name, Start: l.since, End: e.Time, Site: siteName(l.origin)})
		}
	}
}

func siteName(o *event.Origin) string {
	if o == nil {
		return ""
	}
	return siteOf(o)
}

// hold keeps a span until the request has ended that it may be part of.
func (s *goroutines) hold(g GoroutineSpan) {
	if len(s.held) >= maxHeld {
		s.emit(s.held[0].GoroutineSpan)
		s.held = s.held[1:]
	}
	s.held = append(s.held, heldSpan{g, time.Now().Add(holdFor)})
}

// release passes on the spans that have been held long enough.
func (s *goroutines) release(now time.Time) {
	n := 0
	for n < len(s.held) && !s.held[n].until.After(now) {
		s.emit(s.held[n].GoroutineSpan)
		n++
	}
	s.held = s.held[n:]
}

// clockSlack is by how much the times of two sessions may differ, which read the wall clock once, when they begin.
const clockSlack = int64(time.Millisecond)

// served notes a request that has ended: waits of its goroutine in that time are part of it.
func (s *goroutines) served(r *spans.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.held {
		h := &s.held[i]
		if h.G == r.G && h.Start >= r.Start-clockSlack && h.End <= r.End+clockSlack && !h.Parent.IsValid() {
			h.Parent = r.Context
		}
	}
}

// untracked returns the number of goroutines that had no room.
func (s *goroutines) untracked() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// tick passes on the spans that have been held long enough, also if there are no events.
func (s *goroutines) tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(now)
}

// flush passes on all spans.
func (s *goroutines) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(time.Now().Add(holdFor))
	s.begun = nil
}
