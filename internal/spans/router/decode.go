package router

import (
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
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

// maxKept bounds the requests that are kept. Requests that have ended are among them.
const maxKept = 1 << 12

// A match is the innermost route that has been found for a request.
type match struct {
	span *spans.Span
	at   place
}

// A place is how deep a router is called in a request.
type place struct {
	other bool   // on a goroutine that was created for the request
	depth uint64 // on the stack of the goroutine
}

// within reports whether a place is in another one, or is the same.
func (p place) within(other place) bool {
	if p.other != other.other {
		return p.other
	}
	return p.depth >= other.depth
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker *join.Tracker
	matches map[uint64]match // by goroutine of the request
	texts   *sets.Cache[string]
}

func newDecoder(t *join.Tracker) *decoder {
	return &decoder{tracker: t, matches: map[uint64]match{}, texts: sets.NewCache(func(text string) string { return text })}
}

func (d *decoder) decode(n *probe.Note) {
	depth := n.Word()
	s := d.tracker.Serving(n.G, nethttp.Library)
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
	at := place{n.G != s.G, depth}
	if old := d.matches[s.G]; old.span == s && !at.within(old.at) {
		return
	}
	d.keep(s.G, match{s, at})
	nethttp.SetRoute(s, route)
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

// keep notes the match of a request.
func (d *decoder) keep(g uint64, m match) {
	if _, known := d.matches[g]; !known && len(d.matches) >= maxKept {
		for g, old := range d.matches {
			if old.span.End != 0 {
				delete(d.matches, g)
			}
		}
	}
	d.matches[g] = m
}
