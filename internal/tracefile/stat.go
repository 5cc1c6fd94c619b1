package tracefile

import (
	"context"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/sched"
	"github.com/loupe-go/loupe/trace"
)

// StatOptions say how goroutines are counted.
type StatOptions struct {
	By     By
	Order  Order
	Top    int  // groups and places that are told apart in a Summary; 0 means all
	System bool // the runtime's own goroutines too
}

// A Summary is what the events of a trace say.
type Summary struct {
	Trace trace.Stats // what the file has
	Name  string      // of the file
	Bytes int64       // that were read of it
	Err   error       // why it was not read to its end; nil when it was

	First, Last int64 // times of the first and the last event
	Wall        bool  // they are since the Unix epoch

	Totals  sched.Totals
	Latency sched.Latency
	Runtime sched.Runtime
	HeapMin int64 // bytes; 0 when the trace does not tell the heap

	Options  StatOptions
	Groups   []*Group
	Rest     *Group        // goroutines of groups beyond Options.Top; nil when there are none
	Hidden   uint64        // the runtime's own goroutines, when they are not wanted
	Blockers []sched.Place // where goroutines waited, the places with the most time first
	Places   int           // how many such places there are
}

// Length returns how much time lies between the first and the last event.
func (s *Summary) Length() time.Duration { return time.Duration(s.Last - s.First) }

// Stat reads a trace and says what is in it. When it cannot be read to its end the Summary is about what was read, and has
// the error.
func Stat(ctx context.Context, in *Input, opt StatOptions) (*Summary, error) {
	ev, err := in.Events(ctx)
	if err != nil {
		return nil, err
	}
	a := newAccount(&opt)
	for batch, err := range ev.Batches() {
		if err == nil {
			a.apply(batch)
			continue
		}
		if !IsDamage(err) {
			return nil, err
		}
		a.sum.Err = err
	}
	s := a.finish()
	s.Name, s.Bytes, s.Trace = in.Name, in.Bytes(), ev.Stats()
	s.First, s.Last, _ = ev.Span()
	s.Wall = ev.Wall()
	return s, nil
}

// An account adds up the events of a trace.
type account struct {
	machine *sched.Machine
	waits   waitTimes
	groups  groups
	heap    bool // a size of the heap was told
	sum     Summary
}

func newAccount(opt *StatOptions) *account {
	return &account{machine: sched.New(sched.Options{Kinds: event.KindsTrace}), waits: newWaitTimes(), groups: newGroups(opt),
		sum: Summary{Options: *opt}}
}

// apply takes the next events.
func (a *account) apply(batch []event.Event) {
	done := 0
	for i := range batch {
		e := &batch[i]
		switch e.Kind {
		case event.GoDestroy:
			a.machine.ApplyBatch(batch[done:i])
			done = i
			a.ended(e)
		case event.HeapAlloc:
			if !a.heap || e.HeapBytes() < a.sum.HeapMin {
				a.heap, a.sum.HeapMin = true, e.HeapBytes()
			}
		case event.Lost:
			a.waits.losses++
		default:
			a.waits.apply(e)
		}
	}
	a.machine.ApplyBatch(batch[done:])
}

// ended counts a goroutine that is about to end.
func (a *account) ended(e *event.Event) {
	a.machine.Advance(e.Time)
	if g, ok := a.machine.Goroutine(e.G); ok {
		a.groups.add(&g, a.waits.take(e.G, e.Time), true, e.Time)
	}
}

// finish counts the goroutines that are alive at the end, and returns the result.
func (a *account) finish() *Summary {
	s := &a.sum
	s.Totals, s.Latency, s.Runtime = a.machine.Totals(), a.machine.Latency(), a.machine.Runtime()
	now := s.Totals.Now
	a.machine.Goroutines(sched.Filter{System: true, Match: func(g *sched.Goroutine) bool {
		a.groups.add(g, a.waits.take(g.ID, now), false, now)
		return false // nothing is to be kept
	}}, sched.ByID, 0)
	s.Groups, s.Rest = a.groups.list(s.Options.Top)
	s.Hidden = a.groups.hidden
	s.Blockers = slices.DeleteFunc(a.machine.Contention(0), func(p sched.Place) bool {
		return p.Count == 0 && p.Now == 0 || !s.Options.System && stream.IsSystem(p.Stack)
	})
	s.Places = len(s.Blockers)
	if top := s.Options.Top; top > 0 && len(s.Blockers) > top {
		s.Blockers = s.Blockers[:top]
	}
	return s
}
