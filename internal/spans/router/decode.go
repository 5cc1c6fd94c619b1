package router

import (
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

// Kinds of notes, as in probes.c.
const (
	noteRoute = iota
	noteMuxRoute
	noteRouteParts
	noteLongRoute
)

// Numbers of parts of a route and of pieces of a long one that a note can have, as in probes.c.
const (
	maxParts  = 8
	maxPieces = 4
)

// maxRoute is the length of the longest route that is reported, in bytes.
const maxRoute = 256

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker *join.Tracker
	texts   *sets.Cache[string]
	routes  *nethttp.Routes
}

func newDecoder(t *join.Tracker) *decoder {
	return &decoder{tracker: t, texts: sets.NewCache(func(text string) string { return text }), routes: nethttp.NewRoutes()}
}

func (d *decoder) decode(n *probe.Note) {
	depth := n.Word()
	s, found := d.tracker.Serving(n.G, nethttp.Library)
	if s == nil { // a request of another library, or one that began before the session
		return
	}
	var route string
	switch n.What {
	case noteRoute:
		route = d.text(n)
	case noteMuxRoute:
		route = nethttp.PathOf(d.text(n))
	case noteRouteParts:
		route = d.parts(n)
	case noteLongRoute:
		route = d.long(n)
	}
	if route == "" {
		return
	}
	// The notes of some routers come when they return, later than those of the routers in them.
	at := join.Place{Known: true, Other: n.G != s.G, Depth: depth}
	if found.Known && !at.Within(*found) {
		return
	}
	*found = at
	d.routes.Set(s, route)
}

// text returns the next text of a note if it can be a route or a part of one. Else it returns an empty string.
func (d *decoder) text(n *probe.Note) string {
	t := n.Text()
	switch {
	case t.Marks != 0 || len(t.Bytes) == 0:
		return ""
	case !utf8.Valid(t.Bytes):
		d.tracker.Mismatch()
		return ""
	}
	return d.texts.Of(t.Bytes)
}

// parts returns the route of a note that has its parts: those of routers in routers.
func (d *decoder) parts(n *probe.Note) string {
	count := n.Word()
	if count == 0 || count > maxParts {
		return ""
	}
	var route strings.Builder
	for range count {
		part := d.text(n)
		if part == "" {
			return ""
		}
		route.WriteString(part)
	}
	return joined(route.String())
}

// long returns the route of a note that has its pieces. If it is too long, it has no patterns: those of variables can be longer than
// everything else in a route, as in "/{name:(?:[a-z]|[a-z][a-z0-9-]*[a-z0-9])}".
func (d *decoder) long(n *probe.Note) string {
	count := n.Word()
	if count == 0 || count > maxPieces {
		return ""
	}
	var route []byte
	for range count {
		piece := n.Text()
		if piece.Marks != 0 {
			return ""
		}
		route = append(route, piece.Bytes...)
	}
	if !utf8.Valid(route) {
		d.tracker.Mismatch()
		return ""
	}
	text := string(route)
	if len(text) > maxRoute {
		text = withoutPatterns(text)
	}
	if len(text) > maxRoute {
		return ""
	}
	return text
}

// withoutPatterns returns a route of gorilla/mux without the patterns of its variables, which are in braces and can contain braces.
func withoutPatterns(route string) string {
	var short strings.Builder
	depth, pattern := 0, false
	for _, r := range route {
		switch {
		case r == '{':
			depth++
		case r == '}' && depth > 0:
			if depth--; depth == 0 {
				pattern = false
			}
		case r == ':' && depth == 1:
			pattern = true
		}
		if !pattern {
			short.WriteRune(r)
		}
	}
	return short.String()
}

// joined returns a route without the wildcards at the end of its parts that other parts follow.
func joined(route string) string {
	for strings.Contains(route, "/*/") {
		route = strings.ReplaceAll(route, "/*/", "/")
	}
	if trimmed := strings.TrimRight(route, "/"); trimmed != "" {
		return trimmed
	}
	return "/"
}
