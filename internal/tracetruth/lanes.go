package tracetruth

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/loupe-go/loupe/event"
)

// A lane is what happened to one goroutine and what it did to others, in order.
type lane []*Record

// lanes sorts records by goroutine. A record that names an actor is in two lanes; wakes that may be the runtime's own are
// only in that of the goroutine that was woken, because the observers may see the actor differently. initial has the
// goroutines that are in such a wait at the begin.
func lanes(records []Record, initial map[uint64]bool, release int) map[uint64]lane {
	all := make(map[uint64]lane)
	ownWait := maps.Clone(initial)
	for i := range records {
		r := &records[i]
		all[r.G] = append(all[r.G], r)
		if r.Kind == event.GoBlock {
			ownWait[r.G] = mayBeRuntime(r, release)
		}
		actor := r.actor()
		if actor == 0 || r.Kind == event.GoUnblock && ownWait[r.G] {
			continue
		}
		all[actor] = append(all[actor], r)
	}
	return all
}

// mayBeRuntime reports whether a wait is one that the runtime itself may end, by the reason that the observer has.
func mayBeRuntime(r *Record, release int) bool {
	if r.Switch {
		return false
	}
	if r.Reason == "" {
		return byRuntime[r.TraceReason]
	}
	return isRuntimeWait(r.Reason, release)
}

// isRuntimeWait reports whether a wait with a reason may be ended by the runtime itself.
func isRuntimeWait(wait string, release int) bool {
	traced, ok := traceReason(wait, release)
	return ok && byRuntime[traced]
}

// beginsLast moves each GCBegin of a goroutine after the preemptions that follow it in its lane (RuleGCBegin). It returns the number
// of moves.
func (l lane) beginsLast(g uint64) (moved int) {
	for i := 0; i+2 < len(l); i++ {
		begin, stop, start := l[i], l[i+1], l[i+2]
		if begin.Kind == event.GCBegin && begin.G == g && stop.Kind == event.GoStop && stop.TraceReason == event.StopPreempted && start.Kind == event.GoStart {
			begin.Instant = true
			l[i], l[i+1], l[i+2] = stop, start, begin
			i++ // begin is next
			moved++
		}
	}
	return moved
}

// window returns the part of a lane between two times. Lanes are ordered by cause; by time only nearly, so the part goes
// from the first record within to the last. A record that was moved beyond the end may have been within.
func (l lane) window(begin, end int64) lane {
	first := slices.IndexFunc(l, func(r *Record) bool { return r.Time >= begin })
	if first < 0 {
		return nil
	}
	last := len(l)
	for last > first && l[last-1].Time > end && !l[last-1].Moved {
		last--
	}
	return l[first:last]
}

// after returns the first record after a time, or nil.
func (l lane) after(end int64) *Record {
	for _, r := range l {
		if r.Time > end {
			return r
		}
	}
	return nil
}

// around returns the part of Loupe's records that must contain the records of a trace: between two times, and beyond them
// if the record of the trace has a time later than the step, or than the end.
func (l lane) around(truth lane, begin, end int64) lane {
	if len(truth) > 0 && truth[0].Moved {
		begin = math.MinInt64
	}
	if len(truth) > 0 && truth[len(truth)-1].Moved {
		end = math.MaxInt64
	}
	return l.window(begin, end)
}

// same reports whether two records are the same step, without the fields that are compared later.
func same(a, b *Record) bool { return a.Kind == b.Kind && a.G == b.G }

// match walks both lanes from their start as long as they agree, and returns the position in each. If truth
// allows a choice, both choices agree.
func match(truth, seen lane) (inTruth, inSeen int) {
	for inTruth < len(truth) {
		switch {
		case inSeen < len(seen) && same(truth[inTruth], seen[inSeen]):
			inSeen++
		case !truth[inTruth].optional:
			return inTruth, inSeen
		}
		inTruth++
	}
	return inTruth, inSeen
}

// pairs returns the pairs of records that match considers the same.
func pairs(truth, seen lane) []pair {
	var list []pair
	for len(truth) > 0 {
		if len(seen) > 0 && same(truth[0], seen[0]) {
			list = append(list, pair{truth[0], seen[0]})
			seen = seen[1:]
		} else if !truth[0].optional {
			break
		}
		truth = truth[1:]
	}
	return list
}

// A place is where a lane of a trace may be in what Loupe has seen.
type place struct {
	first    int // index in seen
	inTruth  int // number of records of truth that agree from there on
	inSeen   int // the same for seen
	distance int64
}

// better reports whether a place fits better than another: more records agree, or the times are nearer.
func (p place) better(than place) bool {
	return cmp.Or(
		cmp.Compare(p.inTruth, than.inTruth),
		cmp.Compare(p.inSeen, than.inSeen),
		cmp.Compare(than.distance, p.distance)) > 0
}

// align finds the place in seen at which truth is, without a gap. When it is not, it returns the place where most of its
// begin is. shift is what has to be subtracted from the times in seen.
func align(truth, seen lane, shift, slack int64) place {
	if len(truth) == 0 {
		return place{}
	}
	best := place{first: len(seen)}
	best.inTruth, _ = match(truth, nil) // all of truth may be optional
	best.distance = math.MaxInt64
	for i := range seen {
		// A record long after the start of truth cannot be its start, unless there is no earlier one.
		if i > 0 && seen[i-1].Time-shift > truth[0].Time+slack {
			break
		}
		p := place{first: i, distance: abs(seen[i].Time - shift - truth[0].Time)}
		p.inTruth, p.inSeen = match(truth, seen[i:])
		if p.inTruth == len(truth) && p.inSeen > 0 {
			p.distance += abs(seen[i+p.inSeen-1].Time - shift - truth[len(truth)-1].Time)
		}
		if p.better(best) {
			best = p
		}
	}
	return best
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}
