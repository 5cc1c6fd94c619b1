package tracetruth

import (
	"errors"
	"fmt"
	"strconv"
)

// Categories of the log messages that the program writes into its trace.
const (
	logBegin = "loupe.begin"
	logEnd   = "loupe.end"
	logPhase = "loupe.phase"
)

// A mark is a moment by both clocks.
type mark struct {
	mono  int64 // CLOCK_MONOTONIC, read right before
	trace int64 // the trace's time of the message
}

// marks are the two groups of marks in a trace.
type marks struct{ begin, end []mark }

// add takes a log message; false when it is no mark.
func (m *marks) add(category, message string, at int64) (bool, error) {
	if category != logBegin && category != logEnd {
		return false, nil
	}
	mono, err := strconv.ParseInt(message, 10, 64)
	if err != nil {
		return false, fmt.Errorf("mark %s %q: %w", category, message, err)
	}
	if category == logBegin {
		m.begin = append(m.begin, mark{mono, at})
	} else {
		m.end = append(m.end, mark{mono, at})
	}
	return true, nil
}

// A clock maps the time of a trace to CLOCK_MONOTONIC. Ticks of the processor do not run exactly as fast as the clock, so
// it is a line through two moments.
type clock struct{ first, last mark }

// clock returns the mapping. Of each group the mark with the least delay between clock and message counts: the delay is
// never negative.
func (m *marks) clock() (clock, error) {
	if len(m.begin) == 0 || len(m.end) == 0 {
		return clock{}, errors.New("the trace has no marks at its begin and end")
	}
	c := clock{closest(m.begin), closest(m.end)}
	if c.last.trace <= c.first.trace || c.last.mono <= c.first.mono {
		return clock{}, errors.New("the marks of the trace are not in order")
	}
	return c, nil
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
