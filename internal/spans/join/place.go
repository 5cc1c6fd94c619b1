package join

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/spans"
)

// Serving returns the request of a library that a goroutine works for, and where its route was found; or nil, nil. The request is the innermost
// one that the goroutine serves. If it serves none, it is the one for which the goroutine was created.
func (t *Tracker) Serving(id uint64, library string) (*spans.Span, *Place) {
	s := t.Innermost(id, library, trace.SpanKindServer)
	g := t.goroutine(id)
	switch {
	case s != nil && (g.request == nil || g.request.span != s): // a request in another one
		if t.places[s] == nil {
			t.places[s] = new(Place)
		}
		return s, t.places[s]
	case g == nil || g.request == nil || g.request.span.Library != library:
		return nil, nil
	}
	return g.request.span, &g.request.found
}

// A Place is how deep a router is called that has found the route of a request.
type Place struct {
	Known bool   // a route was found
	Other bool   // on a goroutine that was created for the request
	Depth uint64 // on the stack of the goroutine
}

// Within reports whether a place is in another one, or is the same.
func (p Place) Within(other Place) bool {
	if p.Other != other.Other {
		return p.Other
	}
	return p.Depth >= other.Depth
}
