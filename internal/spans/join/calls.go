package join

import (
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// Call begins the span of a call of one of the program's own functions. Its parent is the innermost open span of the goroutine. Unlike
// the spans of Begin, it does not end with the span around it, and those that are begun in it need not end before: an operation can
// begin in a function and end elsewhere. Return ends the span.
func (t *Tracker) Call(s *spans.Span) *spans.Span {
	t.now = max(t.now, s.Start)
	g := t.add(s.G, s.Start)
	s.PID, s.Kind = t.opt.PID, trace.SpanKindInternal
	if parent, rule := t.scope(g); parent != nil {
		t.attach(s, parent, rule)
	}
	t.identify(s)
	if len(g.open) == 0 {
		g.losses = t.loss.count
	}
	g.open = append(g.open, s)
	t.entered[s], t.calls[s] = true, true
	t.begun(s)
	return s
}

// Return ends a span that Call has begun. ending is how the call ended. It does nothing if the span has ended with its goroutine.
func (t *Tracker) Return(s *spans.Span, at int64, ending spans.Ending) {
	if s.End != 0 {
		return
	}
	s.Ending = ending
	delete(t.entered, s)
	delete(t.calls, s)
	g := t.goroutine(s.G)
	if g == nil {
		t.finish(s, at)
		return
	}
	for i, o := range slices.Backward(g.open) { // it is nearly always the last one
		if o == s {
			g.open = slices.Delete(g.open, i, i+1)
			break
		}
	}
	t.finish(s, at)
	t.settle(g, g.listed)
}
