package nethttp

import (
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/spans"
)

// Routes sets the routes of requests that are served.
type Routes struct {
	names map[nameKey]string
}

// nameKey is of what the name of a span is made.
type nameKey struct{ method, route string }

// maxNames bounds the names that are kept.
const maxNames = 1 << 10

// NewRoutes returns Routes.
func NewRoutes() *Routes { return &Routes{names: map[nameKey]string{}} }

// Set sets the route of a request, also if it has one.
func (r *Routes) Set(s *spans.Span, route string) { r.set(s, semconv.HTTPRoute(route)) }

func (r *Routes) set(s *spans.Span, route attribute.KeyValue) {
	if i := indexOf(s, semconv.HTTPRouteKey); i >= 0 {
		if s.Attributes[i] == route {
			return
		}
		s.Name = strings.TrimSuffix(s.Name, " "+s.Attributes[i].Value.AsString())
		s.Attributes = slices.Delete(s.Attributes, i, i+1)
	}
	s.Set(route)
	s.Name = r.name(s.Name, route.Value.AsString())
}

// name returns the name of the span of a request, given its method and its route.
func (r *Routes) name(method, route string) string {
	key := nameKey{method, route}
	name, ok := r.names[key]
	if !ok {
		if len(r.names) >= maxNames {
			clear(r.names)
		}
		name = method + " " + route
		r.names[key] = name
	}
	return name
}

// setPattern sets the route to the pattern that package net/http has matched since Go 1.22, unless a router has reported it. The pattern
// is unknown here if the program has passed a copy of the request to the router, and for HTTP/2 since Go 1.27.
func (d *decoder) setPattern(s *spans.Span, pattern probe.Text) {
	if len(pattern.Bytes) > 0 && pattern.Marks == 0 && indexOf(s, semconv.HTTPRouteKey) < 0 {
		d.names.set(s, d.routes.Of(pattern.Bytes))
	}
}

// indexOf returns the index of an attribute, or -1.
func indexOf(s *spans.Span, key attribute.Key) int {
	return slices.IndexFunc(s.Attributes, func(a attribute.KeyValue) bool { return a.Key == key })
}

// PathOf returns the path of a pattern, which may begin with a method and a host: "GET example.com/items/{id}".
func PathOf(pattern string) string {
	if _, rest, ok := strings.Cut(pattern, " "); ok {
		pattern = strings.TrimLeft(rest, " \t")
	}
	if i := strings.IndexByte(pattern, '/'); i > 0 {
		pattern = pattern[i:]
	}
	return pattern
}
