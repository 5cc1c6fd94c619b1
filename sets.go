package loupe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/allocsample"
	"github.com/loupe-go/loupe/internal/probe/inline"
)

// sets are the sets of probes of a session in addition to that of the runtime. Each may be nil.
type sets struct {
	allocs *allocSet
	spans  *spanSets
}

// observed returns what a new session of a process observes, and the sets for it. The error reports that the process is running and
// does not sample allocations.
func (o Options) observed(p *goproc.Process, engine probe.Engine, running bool) (probe.Want, sets, error) {
	want := o.withSpanKinds(engine).want()
	var s sets
	switch {
	case o.Allocs.Sample:
		if _, err := p.MemProfileRate(); err != nil && running {
			return want, s, err
		}
		s.allocs = &allocSet{samples: allocsample.New(p.MemProfileRate)}
	case o.Allocs.By != 0:
		s.allocs = &allocSet{counts: o.Allocs.set()}
	}
	if s.allocs != nil {
		want.Sets = append(want.Sets, s.allocs.probes())
	}
	if o.Spans.made() {
		var err error
		if s.spans, err = newSpanSets(o.Spans, p, engine, want.Kinds); err != nil {
			return want, s, err
		}
		want.Sets = append(want.Sets, s.spans.probes...)
		if want.Requests = !o.Spans.Tasks; o.Kinds.IsEmpty() && o.Spans.NoWork {
			want.Spare = bareKinds
		}
		if s.spans.allocs != nil {
			want.Sets, want.Allocated = append(want.Sets, s.spans.allocs.Probes), s.spans.tracker.Allocated
		}
		if _, changes := engine.(*inline.Engine); changes && o.Spans.Propagation != nil {
			want.Propagate = o.Spans.Propagation.probes()
		}
		want.ProfilerMap = o.Spans.ProfilerMap
		s.spans.silent = o.Spans.Propagation != nil && want.Propagate == nil
	}
	return want, s, nil
}

// opened returns a session with sets. A session whose sets report nothing is closed.
func opened(s *probe.Session, with sets, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	if with.allocs != nil && !with.allocs.attached(s) || with.spans != nil && !with.spans.attached(s) {
		reasons := strings.Join(event.WarningTexts(s.Warnings()), "; ")
		return nil, errors.Join(fmt.Errorf("process %d: %w: %s", s.PID(), probe.ErrUnsupported, reasons), s.Close())
	}
	if with.spans != nil {
		with.spans.session = s
		if w, ok := builtWarning(with.spans.binary); ok {
			s.Warn(w)
		}
		for _, w := range with.spans.warnings {
			s.Warn(w)
		}
		if with.spans.allocs != nil && with.spans.allocs.Attached(s) {
			with.spans.tracker.CountAllocations()
		}
		if with.spans.silent {
			s.Warn(event.Warnf(event.WarnMissing, "requests that the program sends carry no traceparent header: engine uprobe does not change the target; use engine inline"))
		}
	}
	return &Session{probes: s, allocs: with.allocs, spans: with.spans}, nil
}
