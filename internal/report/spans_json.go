package report

import (
	"encoding/json"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/spans"
)

// spanJSON is the JSON form of a span.
type spanJSON struct {
	TraceID    string         `json:"traceId"`
	SpanID     string         `json:"spanId"`
	Parent     string         `json:"parentSpanId,omitempty"`
	ParentRule string         `json:"parentRule,omitempty"` // why it is the parent: header, goroutine, creator, context
	Links      []linkJSON     `json:"links,omitempty"`
	Events     []eventJSON    `json:"events,omitempty"`
	Name       string         `json:"name"`
	Kind       string         `json:"kind"`
	Start      string         `json:"start"`
	End        string         `json:"end"`
	PID        int32          `json:"pid"`
	G          uint64         `json:"g"`
	Library    string         `json:"library"`
	Sampled    bool           `json:"sampled"`
	Own        bool           `json:"own,omitempty"` // the program exports it itself
	Attributes map[string]any `json:"attributes"`
	Status     string         `json:"status"` // unset, error or ok
	Message    string         `json:"message,omitempty"`
	Ending     string         `json:"ending,omitempty"` // how it ended, unless it returned
}

// linkJSON is the JSON form of another span that caused a span.
type linkJSON struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
	Rule    string `json:"rule,omitempty"` // channel: the goroutine has received something from one in that span
}

// eventJSON is the JSON form of an event of a span.
type eventJSON struct {
	Name       string         `json:"name"`
	Time       string         `json:"time"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

var statusNames = map[codes.Code]string{codes.Unset: "unset", codes.Error: "error", codes.Ok: "ok"}

var endingNames = map[spans.Ending]string{spans.Panicked: "goroutine exit", spans.Unobserved: "not observed"}

// SpanJSON writes a span as one line.
func SpanJSON(w io.Writer, s *spans.Span) error {
	doc := spanJSON{TraceID: s.Context.TraceID().String(), SpanID: s.Context.SpanID().String(), ParentRule: string(s.Rule), Name: s.Name,
		Kind: s.Kind.String(), Start: timeOf(s.Start), End: timeOf(s.End), PID: s.PID, G: s.G, Library: s.Library,
		Sampled: s.Context.IsSampled(), Own: s.Exported, Attributes: attributesOf(s.AllAttributes()), Status: statusNames[s.Status], Message: s.Message, Ending: endingNames[s.Ending]}
	if s.Parent.IsValid() {
		doc.Parent = s.Parent.SpanID().String()
	}
	for i, c := range s.Links {
		link := linkJSON{TraceID: c.TraceID().String(), SpanID: c.SpanID().String()}
		if i == 0 {
			link.Rule = string(s.LinkRule)
		}
		doc.Links = append(doc.Links, link)
	}
	for _, e := range s.Events {
		doc.Events = append(doc.Events, eventJSON{e.Name, timeOf(e.Time), attributesOf(e.Attributes)})
	}
	line, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = w.Write(append(term.EscapeJSON(line), '\n'))
	return err
}

// attributesOf returns attributes by key.
func attributesOf(list []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

func timeOf(nanos int64) string { return time.Unix(0, nanos).UTC().Format(time.RFC3339Nano) }

// SpanSummary is the end of an observation of spans.
type SpanSummary struct {
	Elapsed time.Duration
	Spans   uint64 // that ended
	Lost    uint64 // reports of begins and ends that were lost; each can cost a span
	// Open spans were still open at the end, and Unobserved ones have an uncertain end.
	Open, Unobserved, Panicked uint64
	Own                        uint64 // of Spans, those that the program exports itself
	// Exported, Dropped and Failed are the numbers of spans by what became of their export.
	Exported, Dropped, Failed uint64
	Events                    event.Counts // of goroutines
}

// JSON writes the summary as one line.
func (s *SpanSummary) JSON(w io.Writer) error {
	doc := struct {
		Kind       string  `json:"kind"`
		Seconds    float64 `json:"seconds"`
		Spans      uint64  `json:"spans"`
		Lost       uint64  `json:"lost"`
		Open       uint64  `json:"open"`
		Unobserved uint64  `json:"unobserved"`
		Panicked   uint64  `json:"panicked"`
		Own        uint64  `json:"own,omitempty"`
		Exported   uint64  `json:"exported,omitempty"`
		Dropped    uint64  `json:"dropped,omitempty"`
		Failed     uint64  `json:"failed,omitempty"`
		Events     uint64  `json:"events"`
		LostEvents uint64  `json:"lostEvents"`
	}{"Summary", s.Elapsed.Seconds(), s.Spans, s.Lost, s.Open, s.Unobserved, s.Panicked, s.Own, s.Exported, s.Dropped, s.Failed, s.Events.Received, s.Events.Lost}
	line, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
