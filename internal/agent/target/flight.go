package target

import (
	"bytes"
	"cmp"
	"sync"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/record"
)

// A flight keeps the newest events of a watch.
type flight struct {
	mu   sync.Mutex
	kept *record.Flight
	err  error // of the first event that could not be kept
}

// flightBytes limits the memory for the events of one target.
const flightBytes = 8 << 20

func newFlight(keep time.Duration, opt export.Options) (*flight, error) {
	kept, err := record.NewFlight(keep, flightBytes, opt)
	if err != nil {
		return nil, err
	}
	return &flight{kept: kept}, nil
}

func (f *flight) add(e *event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = f.kept.Write(e)
	}
}

// take returns what is kept as a Go execution trace.
func (f *flight) take() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	s, err := f.kept.Take()
	if err != nil {
		return nil, err
	}
	format, err := export.Formats().Find(export.Go)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := s.Write(&b, format); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// A Recording is the seconds around an anomaly, as a Go execution trace.
type Recording struct {
	Name string // as in Alert.Recording
	Data []byte
	Err  error // why there is no data
}

// A pending recording is written when its time has come, or before the events are observed in another way.
type pending struct {
	name string
	due  time.Time
}

// boostBy is how many times as much a target may cost after an anomaly has begun: for as long as a recording, or boostFor.
const (
	boostBy  = 10
	boostFor = 10 * time.Second
)

// overhead returns the part of the target's processor time that probes may take now. The caller holds mu.
func (t *Target) overhead(now time.Time) float64 {
	if now.Before(t.boostUntil) {
		return min(1, t.settings.Overhead*boostBy)
	}
	return t.settings.Overhead
}

// boost raises the resolution for a while, and has the events around this moment recorded. It returns the name of the recording, or an empty
// string if there is none. The caller holds mu.
func (t *Target) boost(now time.Time, name string) string {
	t.boostUntil = now.Add(cmp.Or(t.settings.Record, boostFor))
	t.policy.calm = upMost // the higher level is chosen at once
	if t.settings.Record == 0 || t.opt.Record == nil {
		return ""
	}
	if t.pending == nil {
		t.pending = &pending{t.opt.Name(t.identity, name), t.boostUntil}
	}
	return t.pending.name
}

// writeDue writes the pending recording if its time has come. leaves says that the watch is about to end: what it has kept is written now.
// If nothing was kept before the anomaly, the recording has the time after it.
func (t *Target) writeDue(now time.Time, leaves bool) {
	t.mu.Lock()
	p, w := t.pending, t.watch
	kept := w != nil && w.flight != nil
	if p == nil || now.Before(p.due) && !(leaves && kept) {
		t.mu.Unlock()
		return
	}
	t.pending = nil
	t.mu.Unlock()
	r := Recording{Name: p.name, Err: errNoEvents}
	if kept {
		r.Data, r.Err = w.flight.take()
	}
	t.opt.Record(r)
}
