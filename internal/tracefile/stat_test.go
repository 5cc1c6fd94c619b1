package tracefile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// A life is what a goroutine has done, by the toolchain's own reader.
type life struct {
	state  xtrace.GoState
	since  xtrace.Time
	seen   xtrace.Time
	reason string
	ended  bool
	spent  map[xtrace.GoState]time.Duration
	waits  map[string]time.Duration
}

// enter ends the time in a state and begins it in another.
func (l *life) enter(to xtrace.GoState, now xtrace.Time, reason string) {
	if l.state != xtrace.GoUndetermined && l.state != xtrace.GoNotExist {
		l.spent[l.state] += now.Sub(l.since)
	}
	if l.state == xtrace.GoWaiting {
		l.waits[l.reason] += now.Sub(l.since)
	}
	l.state, l.since, l.reason = to, now, reason
}

// truth is what golang.org/x/exp/trace says about a trace.
type truth struct {
	lives  map[uint64]*life
	wall   int64 // the difference between the time of day and the trace's time; 0 when it is not told
	blocks uint64
	gcs    int
	gcTime time.Duration
	stw    []time.Duration
	heap   []uint64

	// slack is by how much times may differ. The reader of the old format gives events of one time different times, in an
	// order that is another one each time that it reads.
	slack time.Duration
}

// same reports whether two times are the same.
func (tr *truth) same(a, b time.Duration) bool { return (a - b).Abs() <= tr.slack }

// tell reads a trace by the toolchain's reader. until is the last time that counts, since the epoch if the trace tells it.
func tell(t *testing.T, path string, until int64) *truth {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := xtrace.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tr := &truth{lives: map[uint64]*life{}}
	begun := map[string]xtrace.Time{}
	synced := false
	for {
		e, err := r.ReadEvent()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind() == xtrace.EventSync {
			if c := e.Sync().ClockSnapshot; c != nil && !synced {
				tr.wall = c.Wall.UnixNano() - int64(c.Trace)
			}
			synced = true
			continue
		}
		switch e.Kind() {
		case xtrace.EventStateTransition:
			tr.transition(&e)
		case xtrace.EventRangeBegin:
			begun[e.Range().Name] = e.Time()
		case xtrace.EventRangeEnd:
			name := e.Range().Name
			since, ok := begun[name]
			switch {
			case !ok:
			case name == "GC concurrent mark phase":
				tr.gcs++
				tr.gcTime += e.Time().Sub(since)
			case strings.HasPrefix(name, "stop-the-world"):
				tr.stw = append(tr.stw, e.Time().Sub(since))
			}
			delete(begun, name)
		case xtrace.EventMetric:
			if m := e.Metric(); m.Name == "/memory/classes/heap/objects:bytes" {
				tr.heap = append(tr.heap, m.Value.Uint64())
			}
		}
	}
	for _, l := range tr.lives {
		if !l.ended {
			l.enter(xtrace.GoNotExist, xtrace.Time(until-tr.wall), "")
		}
	}
	return tr
}

func (tr *truth) transition(e *xtrace.Event) {
	st := e.StateTransition()
	if st.Resource.Kind != xtrace.ResourceGoroutine {
		return
	}
	from, to := st.Goroutine()
	if from == to {
		return // told again
	}
	id := uint64(st.Resource.Goroutine())
	l := tr.lives[id]
	if l == nil {
		l = &life{state: xtrace.GoUndetermined, seen: e.Time(), spent: map[xtrace.GoState]time.Duration{}, waits: map[string]time.Duration{}}
		tr.lives[id] = l
	}
	if from == xtrace.GoRunning && to == xtrace.GoWaiting {
		tr.blocks++
	}
	l.ended = to == xtrace.GoNotExist
	l.enter(to, e.Time(), st.Reason)
}

// TestStatIsTrue compares what Stat says of each goroutine with what follows from the toolchain's reader.
func TestStatIsTrue(t *testing.T) {
	for _, r := range releases(t) {
		t.Run(r.String(), func(t *testing.T) {
			path := record(t, r)
			s, err := Stat(t.Context(), open(t, path), StatOptions{By: ByNone, Order: OrderRunning, System: true})
			if err != nil {
				t.Fatal(err)
			}
			if s.Wall != (r.minor >= 25) {
				t.Errorf("tells the time of day: %v", s.Wall)
			}
			want := tell(t, path, s.Last)
			if len(s.Groups) != len(want.lives) || len(s.Groups) < 20 {
				t.Errorf("%d goroutines, want %d", len(s.Groups), len(want.lives))
			}
			if r.minor < 22 {
				want.slack = time.Microsecond
			}
			for _, g := range s.Groups {
				compareLife(t, g, want.lives[g.G], want.same)
			}
			compareProgram(t, s, want)
		})
	}
}

// identical are reasons that have the same name in both of the runtime's sets of words.
var identical = []string{"chan receive", "chan send", "select", "sleep"}

func compareLife(t *testing.T, g *Group, want *life, same func(a, b time.Duration) bool) {
	if want == nil {
		t.Errorf("goroutine %d is not in the trace", g.G)
		return
	}
	for _, c := range []struct {
		what  string
		got   *Spread
		state xtrace.GoState
	}{
		{"running", &g.Running, xtrace.GoRunning}, {"runnable", &g.Runnable, xtrace.GoRunnable}, {"blocked", &g.Blocked, xtrace.GoWaiting},
		{"in system calls", &g.Syscall, xtrace.GoSyscall},
	} {
		if got := c.got.Total().Duration(); !same(got, want.spent[c.state]) || c.got.Min() != got || c.got.Quantile(0.5) != got {
			t.Errorf("goroutine %d %s for %v, want %v", g.G, c.what, got, want.spent[c.state])
		}
	}
	if got := g.Lifetime.Total().Duration(); !same(got, want.since.Sub(want.seen)) {
		t.Errorf("goroutine %d alive for %v, want %v", g.G, got, want.since.Sub(want.seen))
	}
	if g.Uncertain.Duration() != 0 || (g.Ended == 1) != want.ended {
		t.Errorf("goroutine %d: uncertain %v, ended %d", g.G, g.Uncertain.Duration(), g.Ended)
	}
	sum := time.Duration(0)
	byReason := map[string]time.Duration{}
	for i := range g.Reasons {
		d := g.Reasons[i].Total().Duration()
		sum += d
		byReason[g.Reasons[i].Name] += d
	}
	if sum != g.Blocked.Total().Duration() {
		t.Errorf("goroutine %d blocked for %v, by reason %v", g.G, g.Blocked.Total().Duration(), sum)
	}
	for _, reason := range identical {
		if !same(byReason[reason], want.waits[reason]) {
			t.Errorf("goroutine %d blocked in %s for %v, want %v", g.G, reason, byReason[reason], want.waits[reason])
		}
	}
}

// compareProgram compares what is about the whole program.
func compareProgram(t *testing.T, s *Summary, want *truth) {
	var ended, created, blocked uint64
	waits := s.Totals.Kinds[event.GoBlock]
	for _, l := range want.lives {
		if l.ended {
			ended++
		}
	}
	for _, g := range s.Groups {
		created += g.Count - g.AtStart
		for i := range g.Reasons {
			blocked += g.Reasons[i].Waits
		}
	}
	if s.Totals.Ended != ended || s.Totals.Created != created || s.Totals.Live+s.Totals.Ended != uint64(len(want.lives)) {
		t.Errorf("%d created, %d ended, %d alive; want %d, %d of %d", s.Totals.Created, s.Totals.Ended, s.Totals.Live, created, ended, len(want.lives))
	}
	if waits != want.blocks || blocked < waits {
		t.Errorf("%d waits began, %d by reason; want %d", waits, blocked, want.blocks)
	}
	if rt := &s.Runtime; int(rt.GC.Count) != want.gcs || !want.same(rt.GC.Time.Duration(), want.gcTime) || want.gcs == 0 {
		t.Errorf("%d collections of %v, want %d of %v", rt.GC.Count, rt.GC.Time.Duration(), want.gcs, want.gcTime)
	}
	total, longest := time.Duration(0), time.Duration(0)
	for _, d := range want.stw {
		total += d
		longest = max(longest, d)
	}
	if rt := &s.Runtime; int(rt.STW.Count) != len(want.stw) || !want.same(rt.STW.Time.Duration(), total) || !want.same(rt.STW.Max, longest) || total == 0 {
		t.Errorf("%d stops of %v, at most %v; want %d of %v, %v", rt.STW.Count, rt.STW.Time.Duration(), rt.STW.Max, len(want.stw), total, longest)
	}
	low, high := want.heap[0], want.heap[0]
	for _, h := range want.heap {
		low, high = min(low, h), max(high, h)
	}
	if s.HeapMin != int64(low) || s.Runtime.HeapMax != int64(high) {
		t.Errorf("heap from %d to %d, want %d to %d", s.HeapMin, s.Runtime.HeapMax, low, high)
	}
	if latency := s.Latency.All(); latency.Count() == 0 || latency.Count() > s.Totals.Kinds[event.GoStart] {
		t.Errorf("%d latencies, %d starts", latency.Count(), s.Totals.Kinds[event.GoStart])
	}
}

// TestStatGroups holds that however goroutines are counted together, nothing is lost or counted twice.
func TestStatGroups(t *testing.T) {
	path := record(t, latest(t))
	each, err := Stat(t.Context(), open(t, path), StatOptions{By: ByNone, System: true})
	if err != nil {
		t.Fatal(err)
	}
	want := sumOf(each)
	for _, by := range []By{ByStart, ByCreator, ByNone} {
		for _, order := range Orders() {
			for _, top := range []int{0, 1, 3} {
				s, err := Stat(t.Context(), open(t, path), StatOptions{By: by, Order: order, Top: top, System: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := sumOf(s); got != want {
					t.Errorf("by %s, top %d: %+v, want %+v", by, top, got, want)
				}
				if top > 0 && (len(s.Groups) != top || s.Rest == nil) || top == 0 && s.Rest != nil {
					t.Errorf("by %s, top %d: %d groups, rest %v", by, top, len(s.Groups), s.Rest)
				}
				for i := 1; i < len(s.Groups); i++ {
					if s.Groups[i].key(order).Cmp(s.Groups[i-1].key(order)) > 0 {
						t.Errorf("by %s: group %d has more %s than the one before", by, i, order)
					}
				}
			}
		}
	}
	some, err := Stat(t.Context(), open(t, path), StatOptions{By: ByStart})
	if err != nil {
		t.Fatal(err)
	}
	if got := sumOf(some).count; got+some.Hidden != want.count || some.Hidden == 0 {
		t.Errorf("%d goroutines and %d hidden, want %d", got, some.Hidden, want.count)
	}
}

// sums are sums over all groups.
type sums struct {
	count, ended, waits                         uint64
	running, runnable, blocked, syscall, reason time.Duration
}

func sumOf(s *Summary) (sum sums) {
	groups := s.Groups
	if s.Rest != nil {
		groups = append(groups[:len(groups):len(groups)], s.Rest)
	}
	for _, g := range groups {
		sum.count += g.Count
		sum.ended += g.Ended
		sum.running += g.Running.Total().Duration()
		sum.runnable += g.Runnable.Total().Duration()
		sum.blocked += g.Blocked.Total().Duration()
		sum.syscall += g.Syscall.Total().Duration()
		for i := range g.Reasons {
			sum.reason += g.Reasons[i].Total().Duration()
			sum.waits += g.Reasons[i].Waits
		}
	}
	return sum
}

// TestStatNamesPlaces looks for what the recorder is known to do.
func TestStatNamesPlaces(t *testing.T) {
	for _, r := range releases(t) {
		s, err := Stat(t.Context(), open(t, record(t, r)), StatOptions{By: ByStart, Order: OrderBlocked})
		if err != nil {
			t.Fatal(err)
		}
		groups := map[string]*Group{}
		for _, g := range s.Groups {
			groups[g.Frame.Func] = g
		}
		locks := groups["main.locks.func1"]
		if locks == nil || locks.Count != 40 || locks.Ended != 40 || locks.reason("sync.Cond.Wait") == nil || groups["runtime.main"] == nil {
			t.Errorf("%v: groups %v, %+v", r, groups, locks)
			continue
		}
		if wait := locks.reason("sync.Cond.Wait"); wait.Count() == 0 || wait.Quantile(0.5) < time.Microsecond {
			t.Errorf("%v: the median wait for the condition took %v", r, wait.Quantile(0.5))
		}
		found := false
		for _, p := range s.Blockers {
			found = found || p.Stack != nil && p.Stack.Frames[0].Func == "time.Sleep" && p.Time.Duration() > time.Second
		}
		if !found {
			t.Errorf("%v: the sleep of a second is not among the places", r)
		}
	}
}

// readable counts the events that a trace.Reader has of a damaged trace. More of a trace need not be more events: of a
// generation without its end little can be read, and where it is cut decides what.
func readable(t *testing.T, data []byte) (n uint64) {
	t.Helper()
	r, err := trace.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range r.Events() {
		if err == nil {
			n++
		}
	}
	return n
}

// batches returns the offsets at which batches begin.
func batches(t *testing.T, data []byte) map[int]bool {
	t.Helper()
	all := map[int]bool{}
	r, err := raw.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for at := int(r.Offset()); ; at = int(r.Offset()) {
		var ev raw.Event
		if err := r.ReadEvent(&ev); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(ev.Spec().Name, "Batch") {
			all[at] = true
		}
	}
}

// TestStatOfDamage cuts traces: what precedes the damage is counted, and the error told.
func TestStatOfDamage(t *testing.T) {
	for _, r := range releases(t) {
		data, err := os.ReadFile(record(t, r))
		if err != nil {
			t.Fatal(err)
		}
		whole, boundaries := len(data), batches(t, data)
		for _, n := range []int{1, 15, 16, 17, whole / 3, whole / 2, whole - 1} {
			for boundaries[n] { // a trace that is cut between generations is a whole one
				n++
			}
			in, err := Open(t.Context(), Stdin, strings.NewReader(string(data[:n])))
			if err != nil {
				t.Fatal(err)
			}
			s, err := Stat(t.Context(), in, StatOptions{By: ByStart})
			switch {
			case n < 16:
				if err == nil || s != nil {
					t.Errorf("%v, %d bytes: %v", r, n, err)
				}
			case err != nil:
				t.Errorf("%v, %d bytes: %v", r, n, err)
			default:
				if want := readable(t, data[:n]); s.Totals.Events != want {
					t.Errorf("%v, %d bytes: %d events, want %d", r, n, s.Totals.Events, want)
				}
				if damage := new(DamageError); n > whole/4 && !errors.As(s.Err, &damage) {
					t.Errorf("%v, %d of %d bytes: error %v", r, n, whole, s.Err)
				}
			}
		}
	}
}
