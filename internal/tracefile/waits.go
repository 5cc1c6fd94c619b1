package tracefile

import (
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gostate"
)

// waitTimes are how long each goroutine that is alive has waited, by reason, in waits that are over. sched.Machine has the
// sum for all reasons.
type waitTimes struct {
	byG    gostate.Table[waitsOfG]
	losses uint32 // how often events were lost
}

// waitsOfG are the waits of a goroutine.
type waitsOfG struct {
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

func newWaitTimes() waitTimes { return waitTimes{byG: gostate.NewTable[waitsOfG](0)} }

// apply takes an event of a goroutine that does not end.
func (w *waitTimes) apply(e *event.Event) {
	switch {
	case gostate.After(e) == gostate.Waiting:
		w.begin(e)
	case gostate.Before(e.Kind) == gostate.Waiting:
		if r := w.byG.Find(e.G); r != nil {
			w.close(r, e.Time)
		}
	}
}

// begin begins a wait.
func (w *waitTimes) begin(e *event.Event) {
	r := w.byG.Find(e.G)
	if r == nil {
		if r = w.byG.Insert(e.G); r == nil {
			return
		}
		*r = waitsOfG{since: notWaiting, reasons: r.reasons[:0]}
	}
	r.since, r.losses = e.Time, w.losses
	reason := e.WaitReason()
	if i := int(r.current); i >= len(r.reasons) || r.reasons[i].reason != reason {
		r.current = r.index(reason)
	}
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

// close ends a wait. A wait during which events were lost may have been several, and does not count.
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
	r := w.byG.Find(g)
	if r == nil {
		return nil
	}
	w.close(r, t)
	w.byG.Remove(g)
	return r.reasons
}
