package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/loupe-go/loupe/census"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/term"
)

// A Comparison is the report on two snapshots of one process.
type Comparison struct {
	Info   event.ProcessInfo
	Census *census.Comparison
	Live   *Live // the live events between the snapshots; nil if they were not requested
}

// comparisonJSON is the JSON document.
type comparisonJSON struct {
	PID       int              `json:"pid"`
	GoVersion string           `json:"goVersion"`
	Seconds   float64          `json:"seconds"` // between the two snapshots
	Before    int              `json:"before"`  // goroutines of the first
	After     int              `json:"after"`
	Groups    []populationJSON `json:"groups"`
	Suspects  []suspectJSON    `json:"suspects"`
	Live      *liveJSON        `json:"live,omitempty"`
}

// populationJSON is the goroutines of one go statement.
type populationJSON struct {
	CreatedBy *event.Frame   `json:"createdBy,omitempty"` // absent for the main goroutine
	Start     *event.Frame   `json:"start,omitempty"`
	Task      *event.Frame   `json:"task,omitempty"` // start, or the function that it calls if start belongs to a helper
	Before    int            `json:"before"`
	After     int            `json:"after"`
	Doing     []activityJSON `json:"doing"`
}

// activityJSON is what some goroutines of a population are doing.
type activityJSON struct {
	Count  int          `json:"count"`
	Words  string       `json:"words"`
	State  event.State  `json:"state"`
	Reason string       `json:"reason,omitempty"`
	Place  *event.Frame `json:"place,omitempty"`
}

// suspectJSON is one suspected leak.
type suspectJSON struct {
	CreatedBy       *event.Frame `json:"createdBy,omitempty"`
	Task            *event.Frame `json:"task,omitempty"`
	Count           int          `json:"count"`
	GrowthPerMinute float64      `json:"growthPerMinute"`
	OldestSeconds   float64      `json:"oldestSeconds"`
	Reason          string       `json:"reason"`
	Stack           []frameJSON  `json:"stack"`
	Evidence        string       `json:"evidence"`
	Certain         bool         `json:"certain"` // reported by the Go runtime itself
}

// JSON writes the comparison as JSON.
func (c *Comparison) JSON(w io.Writer) error {
	doc := comparisonJSON{PID: c.Info.PID, GoVersion: c.Info.GoVersion, Seconds: c.Census.Interval.Seconds(),
		Before: c.Census.Before, After: c.Census.After, Groups: []populationJSON{}, Suspects: []suspectJSON{}}
	if c.Live != nil {
		doc.Live = c.Live.json()
	}
	for _, p := range c.Census.Populations {
		group := populationJSON{CreatedBy: frameOrNil(p.CreatedBy), Start: frameOrNil(p.Start), Task: frameOrNil(p.Task), Before: p.Before, After: p.After,
			Doing: []activityJSON{}}
		for _, crowd := range p.Crowds {
			if crowd.After == 0 {
				continue
			}
			at := place.Of(crowd.Stack, c.Info.Module)
			group.Doing = append(group.Doing, activityJSON{Count: crowd.After, Words: crowd.Activity().Doing, State: crowd.State,
				Reason: crowd.Reason, Place: frameOrNil(at)})
		}
		doc.Groups = append(doc.Groups, group)
	}
	for _, s := range c.Census.Suspects() {
		doc.Suspects = append(doc.Suspects, suspectJSON{CreatedBy: frameOrNil(s.Population.CreatedBy), Task: frameOrNil(s.Population.Task), Count: s.After,
			GrowthPerMinute: s.GrowthPerMinute, OldestSeconds: s.Oldest.Seconds(), Reason: s.Reason,
			Stack: framesJSON(s.Stack), Evidence: s.Evidence, Certain: s.Certain})
	}
	return WriteJSON(w, doc)
}

// Text writes the comparison as text. Lines are wrapped at width columns; 0 means no limit.
func (c *Comparison) Text(out io.Writer, style term.Style, width int) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%s  pid %d, %s\n", style.Bold(term.Escape(programName(c.Info))), c.Info.PID, term.Escape(c.Info.GoVersion))
	fmt.Fprintf(w, "%s in the first snapshot, %s in the second, %s later.\n\n", style.Bold(english.Count(c.Census.Before, "goroutine")),
		style.Bold(english.Number(c.Census.After)), Duration(c.Census.Interval))
	fmt.Fprintln(w, style.Bold("  NOW  CHANGE  WHAT THEY DO"))
	gone := 0
	for _, p := range c.Census.Populations {
		if p.After == 0 {
			gone += p.Before
			continue
		}
		c.population(w, style, width, p)
	}
	if gone > 0 {
		fmt.Fprintln(w, style.Dim(fmt.Sprintf("  %s of the first snapshot ended without a successor.", english.Count(gone, "goroutine"))))
	}
	fmt.Fprintln(w)
	if c.Live != nil {
		c.Live.text(w, style, width, c.shortPosition)
		fmt.Fprintln(w)
	}
	suspects := c.Census.Suspects()
	if len(suspects) == 0 {
		fmt.Fprintln(w, "Nothing looks leaked: no group of blocked goroutines has grown.")
	}
	for i := range suspects {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c.suspect(w, style, width, &suspects[i])
	}
	return w.Flush()
}

// The columns of the table of populations.
const (
	populationIndent = 15
	shownCrowds      = 3
)

// population writes what the goroutines of one go statement do.
func (c *Comparison) population(w io.Writer, style term.Style, width int, p *census.Population) {
	change := ""
	if n := p.After - p.Before; n != 0 {
		change = fmt.Sprintf("%+d", n)
	}
	fmt.Fprintf(w, "%s  %s  ", style.Bold(fmt.Sprintf("%5s", english.Number(p.After))), style.Warn(fmt.Sprintf("%6s", change)))
	indent := strings.Repeat(" ", populationIndent)
	fmt.Fprintln(w, style.Name(term.Escape(c.populationName(p))))
	shown, left := 0, 0
	for _, crowd := range p.Crowds {
		switch {
		case crowd.After == 0:
			continue
		case shown == shownCrowds:
			left += crowd.After
			continue
		}
		shown++
		words := crowd.Activity().Doing
		if crowd.After < p.After {
			words = fmt.Sprintf("%s %s", english.Number(crowd.After), words)
		}
		if at := place.Of(crowd.Stack, c.Info.Module); !at.IsZero() {
			words += ", at " + c.placeFrom(at, startedAt(p))
		}
		fmt.Fprintf(w, "%s%s\n", indent, term.Wrap(term.Escape(words), width, populationIndent+2))
	}
	if left > 0 {
		fmt.Fprintf(w, "%s%s at other places\n", indent, english.Number(left))
	}
}

// populationName returns the name of a population: its function and the line at which it was started.
func (c *Comparison) populationName(p *census.Population) string {
	name := place.ShortFunc(p.Name())
	switch {
	case name == "":
		return "(unknown function)"
	case p.CreatedBy.IsZero():
		return name
	}
	return fmt.Sprintf("%s, started at %s", name, c.shortPosition(startedAt(p)))
}

// startedAt returns the source line that explains a population: its go statement, or its task if the go statement
// belongs to a helper.
func startedAt(p *census.Population) event.Frame {
	if p.Task != p.Start && !p.CreatedBy.IsZero() {
		return p.Task
	}
	return p.CreatedBy
}

// placeFrom returns the name of a place that follows another one: only the line if both are in the same file.
func (c *Comparison) placeFrom(place, other event.Frame) string {
	if place.File == other.File {
		return fmt.Sprintf("line %d", place.Line)
	}
	return c.shortPosition(place)
}

func (c *Comparison) shortPosition(f event.Frame) string {
	return fmt.Sprintf("%s:%d", place.ShortFile(f, c.Info.Module), f.Line)
}

// suspect writes a suspected leak and its evidence.
func (c *Comparison) suspect(w io.Writer, style term.Style, width int, s *census.Suspect) {
	verdict := "LOOKS LEAKED"
	if s.Certain {
		verdict = "LEAKED"
	}
	fmt.Fprintf(w, "%s  %s, %s a minute\n", style.Bad(verdict), english.Count(s.After, "goroutine"), english.Signed(s.GrowthPerMinute))
	activity := s.Activity()
	lines := []struct{ name, text string }{{"blocked", activity.Doing}}
	at := func(name, words string, f event.Frame) {
		if !f.IsZero() {
			lines = append(lines, struct{ name, text string }{name, words + f.Func}, struct{ name, text string }{"", position(f)})
		}
	}
	at("", "in ", place.Of(s.Stack, c.Info.Module))
	at("started", "by ", s.Population.CreatedBy)
	if s.Population.Task != s.Population.Start {
		at("", "for ", s.Population.Task)
	}
	lines = append(lines, []struct{ name, text string }{
		{"evidence", s.Evidence}, {"oldest", oldest(s)}, {"fix", activity.Fix},
	}...)
	const indent = 12
	for _, l := range lines {
		if l.text != "" {
			fmt.Fprintf(w, "  %-*s%s\n", indent-2, l.name, term.Wrap(term.Escape(l.text), width, indent))
		}
	}
}

// oldest describes how long the longest-blocked goroutine has been blocked.
func oldest(s *census.Suspect) string {
	switch {
	case s.Oldest == 0:
		return ""
	case s.OldestExact:
		return "blocked for " + Duration(s.Oldest) + " or a little longer"
	}
	return "blocked for at least " + Duration(s.Oldest)
}
