package probe

import (
	"time"

	"github.com/loupe-go/loupe/event"
)

// delayEvery is the number of events of which the delay of one is measured. It is a power of two.
const delayEvery = 64

// delay measures how long an event took until now. An event whose time is not that of its record has none: the first ones, and waits
// that are reported when they end.
func (s *Session) delay(ev *event.Event) {
	if ev.Kind == event.GoStatus || ev.Kind == event.Lost || ev.Kind == event.Resample || ev.Kind == event.GoBlock && s.plan.Want.MinBlock > 0 {
		return
	}
	d := time.Duration(monotonic() + s.decoder.offset - ev.Time)
	s.mu.Lock()
	s.delays.Add(d)
	s.mu.Unlock()
}

// notePeak notes how much of the buffer is in use.
func (s *Session) notePeak() {
	used := s.engine.Used()
	s.mu.Lock()
	s.peak = max(s.peak, used)
	s.mu.Unlock()
}

// BufferPeak returns the largest part of the buffer that was in use since the last call, from 0 to 1, as it was each time when events were
// read.
func (s *Session) BufferPeak() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	peak := s.peak
	if s.peak = 0; !s.released {
		s.peak = s.engine.Used()
	}
	return max(peak, s.peak)
}
