package tracetruth

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Categories of the log messages that the program writes into its trace.
const (
	logBegin = "loupe.begin"
	logEnd   = "loupe.end"
	logClock = "loupe.clock"
	logPhase = "loupe.phase"
)

// A mark is a moment by both clocks.
type mark struct {
	mono  int64 // CLOCK_MONOTONIC, read right before
	trace int64 // the trace's time of the message
	moved bool  // the trace reader changed the time
}

// marks are the two groups of marks in a trace, and the stamps between them.
type marks struct{ begin, between, end []mark }

// add adds a log message; it returns false if the message is not a mark.
func (m *marks) add(category, message string, at int64, moved bool) (bool, error) {
	group := map[string]*[]mark{logBegin: &m.begin, logClock: &m.between, logEnd: &m.end}[category]
	if group == nil {
		return false, nil
	}
	mono, err := strconv.ParseInt(message, 10, 64)
	if err != nil {
		return false, fmt.Errorf("mark %s %q: %w", category, message, err)
	}
	*group = append(*group, mark{mono, at, moved})
	return true, nil
}

// A clock maps the time of a trace to CLOCK_MONOTONIC. Ticks of the processor do not run exactly as fast as the clock, so
// it is a line through two moments.
type clock struct{ first, last mark }

// clock returns the mapping. Of each group the mark with the least delay between clock and message counts: the delay is
// never negative. Times that the reader of the trace moved do not count. Where all marks of a group were moved, the stamp next
// to them counts instead. If the trace has the times of CLOCK_MONOTONIC, both clocks run at the same speed, and of all marks
// the one with the least delay counts.
func (m *marks) clock(monotonic bool) (clock, error) {
	if len(m.begin) == 0 || len(m.end) == 0 {
		return clock{}, errors.New("the trace has no marks at its begin and end")
	}
	between := unmoved(m.between)
	begin, end := unmoved(m.begin), unmoved(m.end)
	if len(begin) == 0 {
		begin = between[:min(1, len(between))]
	}
	if len(end) == 0 {
		end = between[max(0, len(between)-1):]
	}
	if len(begin) == 0 || len(end) == 0 {
		return clock{}, errors.New("the times of all marks of the trace were moved by its reader")
	}
	c := clock{closest(begin), closest(end)}
	if c.last.trace <= c.first.trace || c.last.mono <= c.first.mono {
		return clock{}, errors.New("the marks of the trace are not in order")
	}
	if monotonic {
		best := closest(slices.Concat(begin, between, end))
		c = clock{best, mark{mono: best.mono + int64(time.Second), trace: best.trace + int64(time.Second)}}
	}
	return c, nil
}

// unmoved returns the marks whose time was not changed.
func unmoved(group []mark) []mark {
	return slices.DeleteFunc(slices.Clone(group), func(m mark) bool { return m.moved })
}

// movedBy returns the largest distance by which the trace reader moved a mark.
func (m *marks) movedBy(c clock) time.Duration {
	most := int64(0)
	for _, mark := range slices.Concat(m.begin, m.between, m.end) {
		if mark.moved {
			most = max(most, c.mono(mark.trace)-mark.mono)
		}
	}
	return time.Duration(most)
}

func closest(group []mark) mark {
	best := group[0]
	for _, m := range group[1:] {
		if m.trace-m.mono < best.trace-best.mono {
			best = m
		}
	}
	return best
}

// mono maps a time of the trace.
func (c clock) mono(at int64) int64 {
	ratio := float64(c.last.mono-c.first.mono) / float64(c.last.trace-c.first.trace)
	return c.first.mono + int64(float64(at-c.first.trace)*ratio)
}
