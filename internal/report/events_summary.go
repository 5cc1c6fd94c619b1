package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/term"
)

// An EventSummary is the summary at the end of a stream of events.
type EventSummary struct {
	Elapsed    time.Duration
	Events     uint64 // that were received
	Shown      uint64 // number of events that were written; the same as Events without a filter
	Lost       uint64
	Unreadable uint64                // part of Lost for which the target's memory could not be read
	LostByKind map[event.Kind]uint64 // kinds without loss are absent

	TimeErrorP99, TimeErrorMax time.Duration // error bound of times, for 99 % of the events and for all; 0 if times are exact

	Kinds      event.Kinds // the kinds that were observed; counts that require others are omitted
	Created    uint64
	Ended      uint64
	Goroutines int // number of observed goroutines that are alive at the end
	// Uncertain is set if Goroutines was computed from events of which some were lost.
	Uncertain bool
}

// summaryJSON is the last line of a JSON stream.
type summaryJSON struct {
	Kind       string            `json:"kind"` // "Summary"
	Seconds    float64           `json:"seconds"`
	Events     uint64            `json:"events"`
	Shown      *uint64           `json:"shown,omitempty"` // if a filter has excluded some
	Lost       uint64            `json:"lost"`
	Unreadable uint64            `json:"unreadable,omitempty"` // part of lost for which the target's memory could not be read; the rest was lost because the buffer was full
	LostByKind map[string]uint64 `json:"lostByKind,omitempty"`
	TimeError  *timeErrorJSON    `json:"timeError,omitempty"` // with a coarse clock
	Created    *uint64           `json:"created,omitempty"`
	Ended      *uint64           `json:"ended,omitempty"`
	Goroutines *int              `json:"goroutines,omitempty"`
	Uncertain  bool              `json:"goroutinesUncertain,omitempty"`
}

// timeErrorJSON is the error bound of times.
type timeErrorJSON struct {
	P99 float64 `json:"p99Seconds"`
	Max float64 `json:"maxSeconds"`
}

// JSON writes the summary as one line of JSON.
func (s *EventSummary) JSON(w io.Writer) error {
	line := summaryJSON{Kind: "Summary", Seconds: s.Elapsed.Seconds(), Events: s.Events, Lost: s.Lost, Unreadable: s.Unreadable}
	if s.Shown != s.Events {
		line.Shown = &s.Shown
	}
	if s.Lost > 0 {
		line.LostByKind = map[string]uint64{}
		for k, n := range s.LostByKind {
			line.LostByKind[k.String()] = n
		}
	}
	if s.TimeErrorMax > 0 {
		line.TimeError = &timeErrorJSON{P99: s.TimeErrorP99.Seconds(), Max: s.TimeErrorMax.Seconds()}
	}
	if s.Kinds.Has(event.GoCreate) {
		line.Created = &s.Created
	}
	if s.Kinds.Has(event.GoDestroy) {
		line.Ended = &s.Ended
	}
	if s.Kinds.Has(event.GoCreate) && s.Kinds.Has(event.GoDestroy) {
		line.Goroutines, line.Uncertain = &s.Goroutines, s.Uncertain
	}
	doc, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.Write(append(doc, '\n'))
	return err
}

// Text writes the summary as one line of text.
func (s *EventSummary) Text(w io.Writer, style term.Style) error {
	parts := []string{english.Count(s.Events, "event") + " in " + ShortTime(s.Elapsed)}
	if seconds := s.Elapsed.Seconds(); seconds > 0 {
		parts[0] += fmt.Sprintf(" (%s/s)", english.Number(int(float64(s.Events)/seconds)))
	}
	if s.Shown != s.Events {
		parts = append(parts, english.Number(s.Shown)+" shown")
	}
	lost := english.Number(s.Lost) + " lost"
	if s.Lost > 0 {
		lost = style.Bad(lost)
	}
	parts = append(parts, lost)
	if s.Kinds.Has(event.GoCreate) {
		parts = append(parts, english.Count(s.Created, "goroutine")+" created")
	}
	if s.Kinds.Has(event.GoDestroy) {
		parts = append(parts, english.Number(s.Ended)+" ended")
	}
	if s.Kinds.Has(event.GoCreate) && s.Kinds.Has(event.GoDestroy) {
		about := ""
		if s.Uncertain {
			about = "about "
		}
		parts = append(parts, about+english.Number(s.Goroutines)+" alive")
	}
	_, err := fmt.Fprintln(w, strings.Join(parts, ", "))
	return err
}

// LossWords describes a loss of events: "1,200 events were lost (GoBlock 1,000, GoStart 200)".
func LossWords(lost uint64, byKind map[event.Kind]uint64) string {
	kinds := slices.Collect(maps.Keys(byKind))
	slices.SortFunc(kinds, func(a, b event.Kind) int {
		return cmp.Or(cmp.Compare(byKind[b], byKind[a]), cmp.Compare(a, b))
	})
	var words []string
	for _, k := range kinds {
		words = append(words, fmt.Sprintf("%s %s", k, english.Number(byKind[k])))
	}
	verb := " were lost"
	if lost == 1 {
		verb = " was lost"
	}
	line := english.Count(lost, "event") + verb
	if len(words) > 0 {
		line += " (" + strings.Join(words, ", ") + ")"
	}
	return line
}
