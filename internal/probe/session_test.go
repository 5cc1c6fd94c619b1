package probe

import (
	"context"
	"errors"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// countingEngine is an engine whose counters can be read or not.
type countingEngine struct {
	Engine
	counts [event.KindLimit]csrc.Count
	err    error // of Counts

	closeErr, releaseErr error
}

func (*countingEngine) Unlisted() uint64 { return 0 }

func (e *countingEngine) Counts() ([event.KindLimit]csrc.Count, error) { return e.counts, e.err }
func (e *countingEngine) Totals() (csrc.Totals, error)                 { return csrc.Totals{}, nil }
func (*countingEngine) Used() float64                                  { return 0 }
func (e *countingEngine) Stop()                                        {}
func (e *countingEngine) Close() error                                 { return e.closeErr }
func (e *countingEngine) Release() error                               { return e.releaseErr }

// TestStatsUnreadable checks that the numbers that were read last, and the error, are reported when the engine's counters
// cannot be read any more, also after the session is closed.
func TestStatsUnreadable(t *testing.T) {
	engine := &countingEngine{}
	engine.counts[event.GoStart] = csrc.Count{Produced: 10, NoRoom: 3, Unreadable: 1}
	s := &Session{proc: &goproc.Process{}, engine: engine, cancel: func() {}, ctx: context.Background()}
	s.received[event.GoStart] = 6
	want := event.Counts{Produced: 10, Received: 6, Lost: 4, Unreadable: 1}
	check := func(when string, wantErr error) {
		t.Helper()
		got := s.Stats()
		if len(got.Kinds) != 1 || got.Kinds[event.GoStart] != want || got.Lost != want.Lost || got.Unreadable != want.Unreadable || !errors.Is(got.Err, wantErr) {
			t.Errorf("%s: %+v; want %+v, %v", when, got, want, wantErr)
		}
	}
	check("readable", nil)
	failure := errors.New("no counters")
	engine.counts, engine.err = [event.KindLimit]csrc.Count{}, failure
	check("unreadable", failure)
	if err := s.Close(); !errors.Is(err, failure) {
		t.Errorf("closed with %v", err)
	}
	check("closed", failure)
	check("closed, again", failure)
}

// TestStatsReadableAgain checks that an error that is over is not reported any longer.
func TestStatsReadableAgain(t *testing.T) {
	engine := &countingEngine{err: errors.New("no counters")}
	s := &Session{engine: engine}
	if s.Stats().Err == nil {
		t.Error("no error")
	}
	engine.err = nil
	engine.counts[event.GoStop] = csrc.Count{Produced: 1}
	if stats := s.Stats(); stats.Err != nil || stats.Kinds[event.GoStop].Produced != 1 {
		t.Errorf("%+v", stats)
	}
}

// TestCloseOneLine checks that several errors of closing are one line.
func TestCloseOneLine(t *testing.T) {
	links := errors.Join(errors.New("link 1"), errors.New("link 2"))
	engine := &countingEngine{err: errors.New("no counters"), closeErr: links, releaseErr: errors.New("no memory")}
	s := &Session{proc: &goproc.Process{}, engine: engine, cancel: func() {}}
	err := s.Close()
	if err == nil || err.Error() != "link 1; link 2; no counters; no memory" || !errors.Is(err, engine.err) || !errors.Is(err, engine.releaseErr) {
		t.Errorf("%v", err)
	}
}

// contextEngine is an engine that stores contexts, until it is released.
type contextEngine struct {
	countingEngine
	full uint64
}

func (e *contextEngine) ContextsFull() uint64 { return e.full }

func (e *contextEngine) Release() error {
	e.full = 0
	return nil
}

// TestContextsFull checks that the number of contexts that were not stored is kept after the session is closed.
func TestContextsFull(t *testing.T) {
	engine := &contextEngine{full: 3}
	s := &Session{proc: &goproc.Process{}, engine: engine, cancel: func() {}, ctx: context.Background()}
	before := s.ContextsFull()
	engine.full = 5
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := s.ContextsFull(); before != 3 || after != 5 {
		t.Errorf("%d, after the session was closed %d", before, after)
	}
	if n := (&Session{engine: &countingEngine{}}).ContextsFull(); n != 0 {
		t.Errorf("%d with an engine that stores none", n)
	}
}
