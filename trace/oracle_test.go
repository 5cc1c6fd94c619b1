package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/internal/tracev1"
	"github.com/loupe-go/loupe/trace/raw"
)

// refusal returns why the toolchain's reader refuses a trace: its error, or that it panics, when asked for everything. It
// returns nil if it does not.
func refusal(data []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %s", firstLine(fmt.Sprint(v)))
		}
	}()
	r, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for {
		ev, err := r.ReadEvent()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errors.New(firstLine(err.Error()))
		}
		askForAll(&ev)
	}
}

// firstLine returns the first line of a text. Some errors of the toolchain's reader have its whole state.
func firstLine(text string) string {
	if i := strings.IndexAny(text, "\n\r"); i >= 0 {
		return text[:i]
	}
	return text
}

// askForAll asks for all that an event has.
func askForAll(ev *trace.Event) {
	switch ev.Kind() {
	case trace.EventSync:
		ev.Sync()
	case trace.EventStateTransition:
		tr := ev.StateTransition()
		for range tr.Stack.Frames() {
		}
	case trace.EventLog:
		ev.Log()
	case trace.EventRegionBegin, trace.EventRegionEnd:
		ev.Region()
	case trace.EventTaskBegin, trace.EventTaskEnd:
		ev.Task()
	case trace.EventLabel:
		ev.Label()
	}
	for range ev.Stack().Frames() {
	}
}

// oracle returns the events of a trace by way of the toolchain's reader, and the counts of what has no counterpart.
func oracle(data []byte, v raw.Version) (events []event.Event, stats Stats, err error) {
	r, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, Stats{}, err
	}
	m := tracev1.NewMapper(v)
	for {
		ev, err := r.ReadEvent()
		if err == io.EOF {
			return m.Events, Stats(m.Stats), nil
		}
		if err != nil {
			return m.Events, Stats(m.Stats), err
		}
		m.Add(&ev)
	}
}

// sameEvent reports whether two events say the same, even if their stacks and origins are different pointers.
func sameEvent(a, b *event.Event) bool {
	x, y := *a, *b
	if (x.Stack == nil) != (y.Stack == nil) || (x.Origin == nil) != (y.Origin == nil) {
		return false
	}
	if x.Stack != nil && (x.Stack.Truncated != y.Stack.Truncated || !slices.Equal(x.Stack.Frames, y.Stack.Frames)) {
		return false
	}
	if x.Origin != nil && *x.Origin != *y.Origin {
		return false
	}
	x.Stack, y.Stack, x.Origin, y.Origin = nil, nil, nil, nil
	return x == y
}

// eventText returns an event with what it points to.
func eventText(e *event.Event) string {
	s := fmt.Sprintf("%+v", *e)
	if e.Stack != nil {
		s += fmt.Sprintf(" stack %+v", *e.Stack)
	}
	if e.Origin != nil {
		s += fmt.Sprintf(" origin %+v", *e.Origin)
	}
	return s
}
