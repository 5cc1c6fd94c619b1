package tracefile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
)

// A Selection chooses goroutines, and a time. All that happens to these goroutines in the time is chosen, and what is
// about the whole program: the garbage collector, stops of the world, the heap. Each field that is set narrows it.
type Selection struct {
	Goroutines []uint64       // these
	Func       *regexp.Regexp // those with a function that matches on their stack in the time, or that they start with
	Reasons    []string       // those that wait in the time for a reason that contains one of these, letter case ignored
	From, To   Moment
}

// All reports whether everything is chosen.
func (s *Selection) All() bool {
	return !s.byGoroutine() && !s.From.isSet && !s.To.isSet
}

// byGoroutine reports whether not all goroutines are chosen.
func (s *Selection) byGoroutine() bool { return len(s.Goroutines) > 0 || s.searches() }

// searches reports whether the trace has to be read to know which goroutines are chosen.
func (s *Selection) searches() bool { return s.Func != nil || len(s.Reasons) > 0 }

// A Moment is a time in a trace: so long after its first event, or a time of day. The zero value is none.
type Moment struct {
	text  string
	isSet bool
	after time.Duration
	at    time.Time // of the day, when not zero
}

// ParseMoment reads a duration ("1.5s") or a time of day (RFC 3339). An empty text is no moment.
func ParseMoment(text string) (Moment, error) {
	m := Moment{text: text, isSet: text != ""}
	if !m.isSet {
		return m, nil
	}
	var err error
	if m.after, err = time.ParseDuration(text); err == nil {
		if m.after < 0 {
			return m, errors.New("negative")
		}
		return m, nil
	}
	if m.at, err = time.Parse(time.RFC3339Nano, text); err == nil && m.at.Year() >= 1970 && m.at.Year() < 2262 {
		return m, nil
	}
	return m, errors.New("neither a duration since the start, such as 1.5s, nor a time such as 2026-03-01T14:03:05Z")
}

// in returns the moment as the time of an event in a trace that begins at a time.
func (m Moment) in(begin int64, wall bool) (int64, error) {
	if m.at.IsZero() {
		return begin + min(int64(m.after), maxTime-begin), nil
	}
	if !wall {
		return 0, fmt.Errorf("%s is a time of day, which only traces of Go 1.25 and later have; use a duration since the start", m.text)
	}
	return m.at.UnixNano(), nil
}

const maxTime = 1<<63 - 1

// window is the time that a selection chooses, in times of events.
type window struct{ from, to int64 }

// window returns the time that is chosen in a trace that begins at a time.
func (s *Selection) window(begin int64, wall bool) (window, error) {
	w := window{begin, maxTime}
	var err error
	if s.From.isSet {
		if w.from, err = s.From.in(begin, wall); err != nil {
			return w, err
		}
	}
	if s.To.isSet {
		if w.to, err = s.To.in(begin, wall); err != nil {
			return w, err
		}
		if w.to < max(w.from, begin) {
			return w, fmt.Errorf("empty time range: %s is before the start", s.To.text)
		}
	}
	return w, nil
}

// A finder finds out which goroutines a Selection chooses.
type finder struct {
	sel    *Selection
	window window
	before *roster // of what happens before the window; nil from then on

	byFunc, byReason idSet
	stacks           map[*event.Stack]bool // whether a stack matches
	reasons          map[string]bool
}

func newFinder(sel *Selection, w window) *finder {
	f := &finder{sel: sel, window: w, byFunc: idSet{}, byReason: idSet{}, stacks: map[*event.Stack]bool{}, reasons: map[string]bool{}}
	if sel.From.isSet {
		f.before = newRoster()
	}
	return f
}

// take takes an event. It returns errStop when no more are needed.
func (f *finder) take(e *event.Event) error {
	switch {
	case e.Time > f.window.to:
		return errStop
	case e.Time < f.window.from:
		f.before.apply(e)
		return nil
	case f.before != nil:
		f.begin()
	}
	f.look(e)
	return nil
}

// begin looks at what goroutines are doing when the window begins.
func (f *finder) begin() {
	f.before.each(f.window.from, func(e *event.Event) error {
		f.look(e)
		return nil
	})
	f.before = nil
}

// look notes whether an event chooses a goroutine.
func (f *finder) look(e *event.Event) {
	if f.sel.Func != nil {
		if e.Stack != nil && f.matches(e.Stack) {
			f.byFunc.add(owner(e))
		}
		if e.Origin != nil && f.sel.Func.MatchString(e.Origin.Start.Func) {
			f.byFunc.add(e.G)
		}
	}
	if len(f.sel.Reasons) > 0 && (e.Kind == event.GoBlock || e.Kind == event.GoStatus && e.State == event.StateWaiting) {
		if f.fits(e.WaitReason()) || f.fits(e.TraceReason) {
			f.byReason.add(e.G)
		}
	}
}

// owner returns the goroutine that the stack of an event belongs to.
func owner(e *event.Event) uint64 {
	switch e.Kind {
	case event.GoCreate:
		return e.Parent
	case event.GoUnblock:
		return e.By
	}
	return e.G
}

// maxRemembered bounds what a finder remembers of stacks and of reasons.
const maxRemembered = 1 << 16

func (f *finder) matches(s *event.Stack) bool {
	verdict, known := f.stacks[s]
	if !known {
		verdict = slices.ContainsFunc(s.Frames, func(frame event.Frame) bool { return f.sel.Func.MatchString(frame.Func) })
		if len(f.stacks) >= maxRemembered {
			clear(f.stacks)
		}
		f.stacks[s] = verdict
	}
	return verdict
}

func (f *finder) fits(reason string) bool {
	verdict, known := f.reasons[reason]
	if !known {
		lower := strings.ToLower(reason)
		verdict = slices.ContainsFunc(f.sel.Reasons, func(text string) bool { return strings.Contains(lower, strings.ToLower(text)) })
		if len(f.reasons) >= maxRemembered {
			clear(f.reasons)
		}
		f.reasons[reason] = verdict
	}
	return verdict
}

// chooses reports whether a goroutine is chosen, when all events were taken.
func (f *finder) chooses(g uint64) bool {
	return (f.sel.Func == nil || f.byFunc.has(g)) && (len(f.sel.Reasons) == 0 || f.byReason.has(g))
}

// idSet is a set of goroutines' IDs: a bit for each, 64 to a word. Programs number their goroutines without large gaps.
type idSet map[uint64]uint64

func (s idSet) add(id uint64) {
	if id != 0 {
		s[id/64] |= 1 << (id % 64)
	}
}

func (s idSet) has(id uint64) bool { return s[id/64]&(1<<(id%64)) != 0 }
