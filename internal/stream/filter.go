package stream

import (
	"regexp"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// Filter says which events are wanted. Each field that is set narrows the selection. Events that tell of the stream
// itself, such as Lost, are always wanted.
type Filter struct {
	Kinds   event.Kinds    // these kinds; zero for all
	Reasons []string       // waits whose reason contains one of them, letter case ignored; and the GoUnblock that ends one
	Func    *regexp.Regexp // matches a function of the stack, or the one that the goroutine starts with
}

var streamKinds = event.GroupStream.Kinds()

// Selector applies a Filter to a stream.
type Selector struct {
	filter  Filter
	reasons map[string]bool // whether a reason matches
	stacks  map[*event.Stack]bool
	origins map[*event.Origin]bool
}

// maxRemembered bounds each cache of a Selector.
const maxRemembered = 1 << 16

// Select starts to apply the filter.
func (f Filter) Select() *Selector {
	return &Selector{filter: f, reasons: map[string]bool{}, stacks: map[*event.Stack]bool{}, origins: map[*event.Origin]bool{}}
}

// Wants reports whether an event is wanted. ended is the interval that the event ends, as Transitions tells it; its zero
// value when there is none.
func (s *Selector) Wants(e *event.Event, ended *Interval) bool {
	if streamKinds.Has(e.Kind) {
		return true
	}
	if !s.filter.Kinds.IsEmpty() && !s.filter.Kinds.Has(e.Kind) {
		return false
	}
	return s.wantsReason(e, ended) && s.wantsFunc(e)
}

func (s *Selector) wantsReason(e *event.Event, ended *Interval) bool {
	if len(s.filter.Reasons) == 0 {
		return true
	}
	reason := e.WaitReason()
	if e.Kind == event.GoUnblock {
		reason = ended.Reason
	}
	return remembered(s.reasons, reason, func() bool { return contains(reason, s.filter.Reasons) })
}

func (s *Selector) wantsFunc(e *event.Event) bool {
	expr := s.filter.Func
	if expr == nil {
		return true
	}
	return e.Stack != nil && remembered(s.stacks, e.Stack, func() bool {
		return slices.ContainsFunc(e.Stack.Frames, func(f event.Frame) bool { return expr.MatchString(f.Func) })
	}) || e.Origin != nil && remembered(s.origins, e.Origin, func() bool { return expr.MatchString(e.Origin.Start.Func) })
}

// remembered returns the cached value of a key, or computes it.
func remembered[K comparable](known map[K]bool, key K, find func() bool) bool {
	verdict, ok := known[key]
	if !ok {
		if len(known) >= maxRemembered {
			clear(known)
		}
		verdict = find()
		known[key] = verdict
	}
	return verdict
}

// contains reports whether a reason contains one of some texts, ignoring case.
func contains(reason string, texts []string) bool {
	reason = strings.ToLower(reason)
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(reason, strings.ToLower(t)) })
}
