package tracefile

import "github.com/loupe-go/loupe/event"

// waitTimes are how long each goroutine that is alive has waited, by reason, in waits that are over. sched.Machine has the
// sum for all reasons.
type waitTimes struct {
	byG    map[uint64]*waitsOfG
	recent [recentWaits]*waitsOfG // those that were used last, by the lower bits of their IDs
	spare  []*waitsOfG
	losses uint32 // how often events were lost
}

const recentWaits = 256

// waitsOfG are the waits of a goroutine.
type waitsOfG struct {
	g       uint64
	since   int64 // the beginning of the wait under way; notWaiting for none
	losses  uint32
	current int32 // the reason of the last wait, as an index
	reasons []reasonTime
}

const notWaiting = -1

// reasonTime is how long and how often a goroutine has waited for a reason.
type reasonTime struct {
	reason string
	count  uint64
	time   int64
}

// maxReasonsOfG bounds the reasons of a goroutine that are told apart.
const maxReasonsOfG = 64

// otherReasons stands for the reasons beyond a bound.
const otherReasons = "(other reasons)"

func newWaitTimes() waitTimes { return waitTimes{byG: map[uint64]*waitsOfG{}} }

// of returns the waits of a goroutine; nil when there are none.
func (w *waitTimes) of(g uint64) *waitsOfG {
	recent := &w.recent[g%recentWaits]
	if r := *recent; r != nil && r.g == g {
		return r
	}
	r := w.byG[g]
	if r != nil {
		*recent = r
	}
	return r
}

// begin begins a wait.
func (w *waitTimes) begin(e *event.Event) {
	r := w.of(e.G)
	if r == nil {
		if r = w.add(e.G); r == nil {
			return
		}
	}
	r.since, r.losses = e.Time, w.losses
	if i := int(r.current); i >= len(r.reasons) || r.reasons[i].reason != e.Reason {
		r.current = r.index(e.Reason)
	}
}

func (w *waitTimes) add(g uint64) *waitsOfG {
	if g == 0 {
		return nil
	}
	var r *waitsOfG
	if n := len(w.spare); n > 0 {
		r, w.spare = w.spare[n-1], w.spare[:n-1]
	} else {
		r = new(waitsOfG)
	}
	r.g, r.since, r.current = g, notWaiting, 0
	w.byG[g] = r
	return r
}

// index returns the index of a reason.
func (r *waitsOfG) index(reason string) int32 {
	for i := range r.reasons {
		if r.reasons[i].reason == reason {
			return int32(i)
		}
	}
	if len(r.reasons) >= maxReasonsOfG && reason != otherReasons {
		return r.index(otherReasons)
	}
	r.reasons = append(r.reasons, reasonTime{reason: reason})
	return int32(len(r.reasons) - 1)
}

// end ends a wait. One during which events were lost may have been several, and does not count.
func (w *waitTimes) end(e *event.Event) {
	if r := w.of(e.G); r != nil {
		w.close(r, e.Time)
	}
}

func (w *waitTimes) close(r *waitsOfG, t int64) {
	if r.since == notWaiting {
		return
	}
	if r.losses == w.losses {
		r.reasons[r.current].count++
		r.reasons[r.current].time += max(t-r.since, 0)
	}
	r.since = notWaiting
}

// take returns the waits of a goroutine until a time, and forgets it. The result is valid until the next goroutine begins
// to wait.
func (w *waitTimes) take(g uint64, t int64) []reasonTime {
	r := w.of(g)
	if r == nil {
		return nil
	}
	w.close(r, t)
	delete(w.byG, g)
	w.recent[g%recentWaits] = nil
	list := r.reasons
	*r = waitsOfG{reasons: r.reasons[:0]}
	w.spare = append(w.spare, r)
	return list
}
