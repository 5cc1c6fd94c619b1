package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/term"
)

// Allocs is what a program has allocated in an interval.
type Allocs struct {
	Counts *allocs.Counts
	By     []allocs.Dimension // the tables, in this order
	Top    int                // maximum number of rows of a table as text; 0: all
}

// allocsJSON is the JSON form of Allocs.
type allocsJSON struct {
	Time        string      `json:"time"` // the end of the interval
	Seconds     float64     `json:"seconds"`
	Bytes       uint64      `json:"bytes"`
	Objects     uint64      `json:"objects"`
	Calls       uint64      `json:"calls"`
	Requested   uint64      `json:"requested"`
	Tiny        uint64      `json:"tiny"`
	Lost        uint64      `json:"lost"`
	SampleBytes int64       `json:"sampleBytes,omitempty"` // the mean number of bytes between two samples, if the numbers are estimates
	Samples     uint64      `json:"samples,omitempty"`
	StdErr      float64     `json:"standardError,omitempty"` // of bytes
	ByGoroutine []allocJSON `json:"byGoroutine,omitempty"`
	ByCreator   []allocJSON `json:"byCreator,omitempty"`
	ByFunction  []allocJSON `json:"byFunction,omitempty"`
	BySize      []allocJSON `json:"bySize,omitempty"`
	ByType      []allocJSON `json:"byType,omitempty"`
}

// allocJSON is one row. Fields that do not apply to the table or are unknown are omitted.
type allocJSON struct {
	G         *uint64      `json:"g,omitempty"` // 0: threads without a goroutine
	CreatedBy *event.Frame `json:"createdBy,omitempty"`
	Start     *event.Frame `json:"start,omitempty"`
	Func      string       `json:"func,omitempty"`
	File      string       `json:"file,omitempty"`
	Size      *uint64      `json:"size,omitempty"` // 0: objects of the tiny allocator
	Type      string       `json:"type,omitempty"`
	Rest      bool         `json:"rest,omitempty"` // allocations that had no room in the tables of the session

	Bytes     uint64 `json:"bytes"`
	Objects   uint64 `json:"objects"`
	Requested uint64 `json:"requested"`
	Tiny      uint64 `json:"tiny,omitempty"`
}

// JSON writes one object. compact writes it as one line.
func (a *Allocs) JSON(w io.Writer, compact bool) error {
	c := a.Counts
	doc := allocsJSON{Time: c.Ended.Format(time.RFC3339Nano), Seconds: c.Ended.Sub(c.Began).Seconds(), Bytes: c.Total.Bytes, Objects: c.Total.Objects,
		Calls: c.Total.Objects, Requested: c.Total.Requested, Tiny: c.Total.Tiny, Lost: c.Lost,
		SampleBytes: c.Rate, Samples: c.Samples, StdErr: math.Round(c.StdErr())}
	lists := map[allocs.Dimension]*[]allocJSON{allocs.ByGoroutine: &doc.ByGoroutine, allocs.ByCreator: &doc.ByCreator,
		allocs.ByFunction: &doc.ByFunction, allocs.BySize: &doc.BySize, allocs.ByType: &doc.ByType}
	for _, d := range a.By {
		for _, g := range c.By(d) {
			*lists[d] = append(*lists[d], rowJSON(d, g))
		}
	}
	if !compact {
		return WriteJSON(w, doc)
	}
	line, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = w.Write(append(term.EscapeJSON(line), '\n'))
	return err
}

func rowJSON(d allocs.Dimension, g allocs.Group) allocJSON {
	row := allocJSON{Rest: g.Rest, Type: g.Type, Bytes: g.Bytes, Objects: g.Objects, Requested: g.Requested, Tiny: g.Tiny}
	switch {
	case g.Rest:
	case d == allocs.ByGoroutine:
		row.G = &g.Goroutine
		row.CreatedBy, row.Start = frameOrNil(g.Frame), frameOrNil(g.Start)
	case d == allocs.ByCreator:
		row.CreatedBy = frameOrNil(g.Frame)
	case d == allocs.ByFunction:
		row.Func, row.File = g.Frame.Func, g.Frame.File
	case d == allocs.BySize:
		row.Size = &g.Size
	}
	return row
}

// Text writes the totals and the tables. Lines are cut at width columns; 0 means no limit.
func (a *Allocs) Text(out io.Writer, style term.Style, width int) error {
	w := bufio.NewWriter(out)
	c := a.Counts
	elapsed := c.Ended.Sub(c.Began)
	fmt.Fprintf(w, "%s in %s in %s: %s/s, %s objects/s\n", style.Bold(english.Size(int64(c.Total.Bytes))), english.Count(c.Total.Objects, "object"),
		ShortTime(elapsed), english.Size(int64(perSecond(c.Total.Bytes, elapsed))), english.Rate(perSecond(c.Total.Objects, elapsed)))
	if c.Rate > 0 {
		fmt.Fprintf(w, "estimated from %s, one in %s on average; standard error %.1f %%\n",
			english.Count(c.Samples, "sample"), english.Size(c.Rate), 100*c.StdErr()/max(1, float64(c.Total.Bytes)))
	} else {
		fmt.Fprintf(w, "requested: %s; tiny objects: %s\n", english.Size(int64(c.Total.Requested)), english.Number(c.Total.Tiny))
	}
	for _, d := range a.By {
		fmt.Fprintln(w)
		if err := a.table(w, style, width, d); err != nil {
			return err
		}
	}
	return w.Flush()
}

// perSecond returns a number per second.
func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// allocNames are the heads of the last column of the tables.
var allocNames = map[allocs.Dimension]string{allocs.ByGoroutine: "GOROUTINE", allocs.ByCreator: "CREATED BY", allocs.ByFunction: "FUNCTION",
	allocs.BySize: "SIZE", allocs.ByType: "TYPE"}

func (a *Allocs) table(w io.Writer, style term.Style, width int, d allocs.Dimension) error {
	c := a.Counts
	elapsed := c.Ended.Sub(c.Began)
	t := table{head: []string{"BYTES", "%", "OBJECTS", "BYTES/S", "OBJECTS/S", allocNames[d]}, right: map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}}
	groups := c.By(d)
	shown := limited(groups, a.Top)
	for _, g := range shown {
		share := 0.0
		if c.Total.Bytes > 0 {
			share = 100 * float64(g.Bytes) / float64(c.Total.Bytes)
		}
		t.add(english.Size(int64(g.Bytes)), fmt.Sprintf("%.1f", share), english.Number(g.Objects), english.Size(int64(perSecond(g.Bytes, elapsed))),
			english.Rate(perSecond(g.Objects, elapsed)), rowName(d, g))
	}
	if err := t.write(w, style, width); err != nil {
		return err
	}
	if more := len(groups) - len(shown); more > 0 {
		fmt.Fprintln(w, style.Dim(fmt.Sprintf("%s more (--top 0 shows all)", english.Number(more))))
	}
	return nil
}

// rowName returns the name of a row.
func rowName(d allocs.Dimension, g allocs.Group) string {
	at := func(f event.Frame) string {
		return fmt.Sprintf("%s %s:%d", place.ShortFunc(f.Func), place.ShortFile(f, ""), f.Line)
	}
	switch {
	case g.Rest:
		return "(others, beyond the size of the table)"
	case d == allocs.ByGoroutine && g.Goroutine == 0:
		return "(threads without a goroutine)"
	case d == allocs.ByGoroutine && g.Start.IsZero():
		return fmt.Sprint(g.Goroutine)
	case d == allocs.ByGoroutine:
		return fmt.Sprintf("%d %s", g.Goroutine, place.ShortFunc(g.Start.Func))
	case d == allocs.BySize && g.Size == 0:
		return "tiny"
	case d == allocs.BySize:
		return english.Number(g.Size)
	case d == allocs.ByType && g.Type == "":
		return "(no type, or unknown)"
	case d == allocs.ByType:
		return g.Type
	case g.Frame.IsZero() && d == allocs.ByCreator:
		return "(no go statement)"
	case g.Frame.IsZero():
		return "(unknown)"
	case d == allocs.ByFunction:
		return place.ShortFunc(g.Frame.Func)
	}
	return at(g.Frame)
}
