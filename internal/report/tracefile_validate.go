package report

import (
	"bufio"
	"fmt"
	"io"

	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/trace"
)

// TraceProblems writes the problems of a trace file as text: one line for each problem, and a line with the counts.
func TraceProblems(out io.Writer, style term.Style, file string, r *trace.Report) error {
	w := bufio.NewWriter(out)
	for i := range r.Problems {
		p := &r.Problems[i]
		severity := style.Warn(p.Severity.String())
		if p.Severity == trace.Error {
			severity = style.Bad(p.Severity.String() + "  ")
		}
		fmt.Fprintf(w, "%s  %s [%s]\n", severity, term.Escape(p.Error()), p.Code)
	}
	verdict := style.Good("valid")
	if !r.Valid() {
		verdict = style.Bad("not valid")
	}
	fmt.Fprintf(w, "%s  %s: %s\n", verdict, term.Escape(file), r)
	if r.Omitted > 0 {
		fmt.Fprintln(w, "--limit 0 lists all")
	}
	return w.Flush()
}

// traceReportJSON is the result of a validation as JSON.
type traceReportJSON struct {
	File        string         `json:"file"`
	Format      string         `json:"format"`
	Valid       bool           `json:"valid"`
	Errors      int64          `json:"errors"`
	Warnings    int64          `json:"warnings"`
	Counts      map[string]int `json:"counts"` // by code
	Generations int            `json:"generations"`
	Batches     int            `json:"batches"`
	Events      int64          `json:"events"`
	Bytes       int64          `json:"bytes"`
	Problems    []problemJSON  `json:"problems"`
	Omitted     int64          `json:"omitted"`   // number of problems that are not listed
	Unchecked   int64          `json:"unchecked"` // number of mismatches that may be caused by parts that could not be read
}

type problemJSON struct {
	Severity   string `json:"severity"`
	Code       string `json:"code"`
	Offset     int64  `json:"offset"`
	Generation uint64 `json:"generation,omitempty"`
	Batch      *int   `json:"batch,omitempty"` // counted from 0, as event
	Thread     *int64 `json:"thread,omitempty"`
	Event      *int   `json:"event,omitempty"`
	Text       string `json:"text"`
}

// TraceProblemsJSON writes the problems of a trace file as JSON.
func TraceProblemsJSON(out io.Writer, file string, r *trace.Report) error {
	doc := traceReportJSON{File: file, Format: r.Version.String(), Valid: r.Valid(), Errors: r.Errors, Warnings: r.Warnings, Counts: map[string]int{},
		Generations: r.Generations, Batches: r.Batches, Events: r.Events, Bytes: r.Bytes, Problems: []problemJSON{}, Omitted: r.Omitted, Unchecked: r.Unchecked}
	for code, n := range r.Counts {
		doc.Counts[string(code)] = n
	}
	for i := range r.Problems {
		p := &r.Problems[i]
		problem := problemJSON{Severity: p.Severity.String(), Code: string(p.Code), Offset: p.Offset, Generation: p.Generation, Text: p.Text}
		if p.Batch >= 0 {
			problem.Batch = &p.Batch
		}
		if p.Thread >= 0 {
			problem.Thread = &p.Thread
		}
		if p.Event >= 0 {
			problem.Event = &p.Event
		}
		doc.Problems = append(doc.Problems, problem)
	}
	return WriteJSON(out, doc)
}
