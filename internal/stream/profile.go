package stream

import (
	"fmt"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/sched"
)

// Profile adds up a stream of events by stacks.
type Profile struct {
	kind    ProfileType
	wanted  event.Kinds // that are added
	reasons []string    // texts that are looked for in a reason; without any, the type's own waits count
	machine *sched.Machine
}

// NewProfile starts a profile. reasons choose the waits that are counted: those whose reason contains one of them,
// letter case ignored; without any, those that the type counts by itself.
func NewProfile(kind ProfileType, reasons []string) *Profile {
	if kind.Waits != nil && slices.ContainsFunc(reasons, func(r string) bool { return !gostate.Contended(r) }) {
		kind.Values = append([]pprof.ValueType{waitCount}, kind.Values[1:]...)
	}
	return &Profile{kind: kind, wanted: kind.Kinds.Union(event.GroupStream.Kinds()), reasons: reasons, machine: sched.New(sched.Options{Kinds: kind.Kinds})}
}

// Add takes an event in. Events of kinds that the profile does not require are ignored.
func (p *Profile) Add(e *event.Event) {
	if p.wanted.Has(e.Kind) {
		p.machine.Apply(e)
	}
}

// Document is a profile that is ready to be written.
type Document struct {
	*pprof.Builder
	Counted   uint64 // events, or waits, that the profile counts
	Uncertain uint64 // waits over which events were lost: they are not counted
}

// Build makes the document: what was added since a time, for so long. What is missing from it stands in its comments.
func (p *Profile) Build(since time.Time, length time.Duration) *Document {
	b := pprof.NewBuilder(since, pprof.Mapping{}, p.kind.Values...)
	b.Prefer(p.kind.Values[len(p.kind.Values)-1].Type)
	b.Lasted(length)
	doc := &Document{Builder: b}
	stacks, truncated := 0, 0
	p.kind.samples(p.machine, func(s sample) {
		if p.kind.Waits != nil && !p.wants(s.reason) {
			return
		}
		doc.Counted += s.count
		doc.Uncertain += s.uncertain
		if s.count == 0 {
			return
		}
		stacks++
		if s.stack != nil && s.stack.Truncated {
			truncated++
		}
		var labels map[string]string
		if s.reason != "" {
			labels = map[string]string{"reason": s.reason}
		}
		values := []int64{int64(s.count), int64(s.delay)}
		b.Add(s.locations(), labels, values[:len(p.kind.Values)]...)
	})
	if truncated > 0 {
		b.Comment(fmt.Sprintf("%d of %s truncated (increase --stack)", truncated, english.Count(stacks, "stack")))
	}
	if doc.Uncertain > 0 {
		b.Comment(fmt.Sprintf("waits during which events were lost, not counted: %d", doc.Uncertain))
	}
	if t := p.machine.Totals(); t.Untracked > 0 {
		b.Comment(fmt.Sprintf("events of goroutines beyond the first %d, not counted: %d", sched.DefaultMaxGoroutines, t.Untracked))
	}
	return doc
}

// wants reports whether waits with a reason are counted.
func (p *Profile) wants(reason string) bool {
	if len(p.reasons) > 0 {
		return contains(reason, p.reasons)
	}
	return slices.Contains(p.kind.Waits, gostate.WaitOf(reason))
}

// locations is the stack of a sample, with the function that a new goroutine starts with as the leaf.
func (s *sample) locations() []pprof.Location {
	var frames []event.Frame
	if s.origin != nil && !s.origin.Start.IsZero() {
		frames = append(frames, s.origin.Start)
	}
	switch {
	case s.stack != nil:
		frames = append(frames, s.stack.Frames...)
	case s.origin != nil && !s.origin.CreatedBy.IsZero():
		frames = append(frames, s.origin.CreatedBy)
	}
	switch {
	case s.other:
		frames = []event.Frame{{Func: "(other stacks)"}}
	case len(frames) == 0:
		frames = []event.Frame{{Func: "(stack not recorded)"}}
	}
	list := make([]pprof.Location, len(frames))
	for i := range frames {
		list[i].Lines = frames[i : i+1]
	}
	return list
}
