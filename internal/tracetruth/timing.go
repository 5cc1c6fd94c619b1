package tracetruth

import (
	"fmt"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
)

// How far the times of the same step may be apart. A probe fires in the same function in which the runtime writes into its
// trace, or one that it calls: less than a microsecond of code. The probe itself costs about one microsecond, some twelve
// where the kernel has to single-step the instruction, and a trace's clock counts in steps of a tenth.
const (
	// maxMedian bounds the middle of all differences of one kind of event.
	maxMedian = 50 * time.Microsecond
	// maxDelta bounds a single difference, unless the machine took the processor away in between (RuleLate).
	maxDelta = 500 * time.Microsecond
	// lateOneIn and lateFew bound how often that may be: so many, and one in so many events beyond. A switch away takes
	// the place of a microsecond in some thousand microseconds that a thread has on a busy machine.
	lateOneIn = 50
	lateFew   = 10
	// minSamples is how many events a median needs.
	minSamples = 20
)

// How far lengths may be apart.
const (
	// minLength is the shortest run or wait that counts, by both observers: the least that is long beside the differences of times.
	minLength = 200 * time.Microsecond
	// maxRatio bounds the middle of Loupe's lengths divided by the trace's, and that divided by it.
	maxRatio = 1.1
)

// A Spread describes differences of times: Loupe's minus the trace's.
type Spread struct {
	Count             int
	Median, Low, High time.Duration // the middle, and what one percent is below and above
}

func (s Spread) String() string {
	return fmt.Sprintf("%d (%v, %v ... %v)", s.Count, s.Median, s.Low, s.High)
}

func spread(deltas []int64) Spread {
	if len(deltas) == 0 {
		return Spread{}
	}
	slices.Sort(deltas)
	at := func(part int) time.Duration { return time.Duration(deltas[(len(deltas)-1)*part/100]) }
	return Spread{Count: len(deltas), Median: at(50), Low: at(1), High: at(99)}
}

// Lengths describes how long something lasted, by both observers.
type Lengths struct {
	Count       int           // of those long enough
	Median      float64       // of Loupe's lengths divided by the trace's
	Truth, Seen time.Duration // in all
}

func (l Lengths) String() string {
	return fmt.Sprintf("%d (ratio %.3f, %v and %v in all)", l.Count, l.Median, l.Truth, l.Seen)
}

// A pair is the same step as both observers saw it.
type pair struct{ truth, seen *Record }

// timing collects the times of pairs.
type timing struct {
	shift  int64
	bound  time.Duration // of a single difference
	deltas map[event.Kind][]int64
	ratios map[string][]float64
	sums   map[string]Lengths
	late   []pair
}

func newTiming(shift int64) *timing {
	return &timing{
		shift: shift, bound: maxDelta, deltas: make(map[event.Kind][]int64),
		ratios: make(map[string][]float64), sums: make(map[string]Lengths),
	}
}

// add takes the pairs of one goroutine, in order.
func (t *timing) add(own []pair) {
	for i, p := range own {
		if p.truth.isVague() {
			continue
		}
		delta := p.seen.Time - t.shift - p.truth.Time
		t.deltas[p.truth.Kind] = append(t.deltas[p.truth.Kind], delta)
		if abs(delta) > int64(t.bound) {
			t.late = append(t.late, p)
		}
		if i > 0 && !own[i-1].truth.isVague() {
			t.addLength(own[i-1], p)
		}
	}
}

// addLength takes the time between two steps of a goroutine that follow each other.
func (t *timing) addLength(from, to pair) {
	name := "other"
	switch from.truth.Kind {
	case event.GoStart:
		name = "run"
	case event.GoBlock:
		name = "wait"
	case event.GoUnblock, event.GoCreate, event.GoStop:
		name = "runnable"
	}
	truth, seen := to.truth.Time-from.truth.Time, to.seen.Time-from.seen.Time
	if min(truth, seen) < int64(minLength) { // what is long for one of them alone has a late look at the clock at one end
		return
	}
	t.ratios[name] = append(t.ratios[name], float64(seen)/float64(truth))
	sum := t.sums[name]
	sum.Count++
	sum.Truth += time.Duration(truth)
	sum.Seen += time.Duration(seen)
	t.sums[name] = sum
}

// judge puts the result into a report.
func (t *timing) judge(r *Report, opt Options) {
	ignore := func(string, uint64, string, ...any) {}
	fail, failPrecise := r.fail, r.fail
	if opt.Untimed {
		fail = ignore
	}
	if opt.Untimed || opt.TimeError > 0 {
		failPrecise = ignore
	}
	total := 0
	for kind, deltas := range t.deltas {
		s := spread(deltas)
		r.Times[kind] = s
		total += s.Count
		if s.Count >= minSamples && abs(int64(s.Median)) > int64(maxMedian) {
			failPrecise(FailTime, 0, "%v: the median of the differences is %v, at most %v are allowed", kind, s.Median, maxMedian)
		}
	}
	r.Rules[RuleLate] += len(t.late)
	if most := lateFew + total/lateOneIn; len(t.late) > most {
		p := t.late[0]
		fail(FailTime, p.truth.G, "%d of %d times differ by more than %v, at most %d may; the first: %v by %v",
			len(t.late), total, t.bound, most, p.truth, time.Duration(p.seen.Time-t.shift-p.truth.Time))
	}
	for name, ratios := range t.ratios {
		slices.Sort(ratios)
		l := t.sums[name]
		l.Median = ratios[len(ratios)/2]
		r.Lengths[name] = l
		if l.Count >= minSamples && (l.Median > maxRatio || l.Median < 1/maxRatio) {
			failPrecise(FailLength, 0, "%s: by the median of %d, Loupe's lengths are %.3f times the trace's", name, l.Count, l.Median)
		}
	}
}
