package testcollector

import (
	"regexp"
	"strings"
	"time"
)

// The lines that the collector's debug exporter prints. A line of another form continues the value before it.
var (
	signal    = regexp.MustCompile(`^(Traces|Metrics|Logs|Profiles)\t`)
	heading   = regexp.MustCompile(`^(Resource|Scope|Instrumentation|Span #|Attributes:|Events:|Links:|SpanEvent #|SpanLink #)`)
	field     = regexp.MustCompile(`^    ([A-Z][A-Za-z ]*?) *: ?(.*)`)
	attribute = regexp.MustCompile(`^     -> ([^:]+): ?(.*)`)
	typed     = regexp.MustCompile(`(?s)^[A-Z][A-Za-z]*\((.*)\)$`) // Str(x), Int(1)
	nested    = regexp.MustCompile(`^          -> `)
)

// parse returns the spans in the output of the debug exporter. The last one may be incomplete.
func parse(output string) []Span {
	p := parser{}
	for line := range strings.Lines(output) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	p.end()
	return p.spans
}

// A parser reads the output of the debug exporter line by line.
type parser struct {
	spans    []Span
	resource map[string]string
	scope    string
	section  string            // the last heading
	key      string            // of the value that the next line may continue
	attrs    map[string]string // of the section, their values with types
	others   bool              // the lines are about other signals
}

func (p *parser) line(line string) {
	if m := signal.FindStringSubmatch(line); m != nil {
		p.others = m[1] != "Traces"
		return
	}
	if p.others {
		return
	}
	if h := heading.FindString(line); h != "" {
		p.begin(h, line)
		return
	}
	if m := field.FindStringSubmatch(line); m != nil && p.section == "Span #" {
		p.key = m[1]
		p.set(m[2])
		return
	}
	if m := attribute.FindStringSubmatch(line); m != nil {
		p.key = m[1]
		p.set(m[2])
		return
	}
	if !nested.MatchString(line) && line != "" {
		p.set("\n" + line)
	}
}

// begin begins a section.
func (p *parser) begin(heading, line string) {
	p.end()
	p.section, p.key = heading, ""
	switch heading {
	case "Resource":
		if strings.HasPrefix(line, "ResourceSpans") {
			p.resource = map[string]string{}
		}
		p.attrs = p.resource
	case "Instrumentation":
		if line != "InstrumentationScope attributes:" {
			p.scope, _, _ = strings.Cut(strings.TrimPrefix(line, "InstrumentationScope "), " ")
		}
	case "Span #":
		p.spans = append(p.spans, Span{Resource: p.resource, Scope: p.scope, Attributes: map[string]string{}})
	case "Attributes:":
		p.attrs = p.spans[len(p.spans)-1].Attributes
	}
}

// end ends a section: its values are complete, and lose their types.
func (p *parser) end() {
	for key, value := range p.attrs {
		if m := typed.FindStringSubmatch(value); m != nil {
			p.attrs[key] = m[1]
		}
	}
	p.attrs = nil
}

// set sets the value of the current key, or continues it if the value begins with a new line.
func (p *parser) set(value string) {
	if p.attrs != nil {
		if strings.HasPrefix(value, "\n") {
			value = p.attrs[p.key] + value
		}
		p.attrs[p.key] = value
		return
	}
	if len(p.spans) == 0 {
		return // a scope has attributes
	}
	s := &p.spans[len(p.spans)-1]
	switch p.section {
	case "SpanEvent #":
		if p.key == "Name" && !strings.HasPrefix(value, "\n") {
			s.Events = append(s.Events, value)
		}
	case "SpanLink #":
		if p.key == "ID" {
			s.Links = append(s.Links, value)
		}
	case "Span #":
		s.set(p.key, value)
	}
}

// set sets a field of a span.
func (s *Span) set(key, value string) {
	switch key {
	case "Trace ID":
		s.TraceID = value
	case "Parent ID":
		s.ParentID = value
	case "ID":
		s.ID = value
	case "Name":
		s.Name += value
	case "Kind":
		s.Kind = value
	case "Start time":
		s.Start = parseTime(value)
	case "End time":
		s.End = parseTime(value)
	case "Status code":
		s.Status = value
	case "Status message":
		s.Message += value
	}
}

func parseTime(value string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05.999999999 -0700 MST", value)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
