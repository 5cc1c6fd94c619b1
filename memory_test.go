package loupe_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// heapPoint is a value at a time, in nanoseconds of CLOCK_MONOTONIC.
type heapPoint struct {
	time  int64
	value uint64
}

// ownHeap is what a program has recorded of its heap.
type ownHeap struct {
	alloc, goal []heapPoint // of its execution trace
	collections int
	books       []books

	// How releases differ.
	ahead  uint64 // by how much counters of allocations may be ahead
	runway uint64 // how much the goal of a collection is at least above the heap size at which it begins (runtime/mgcpacer.go)
	span   uint64 // by how much the heap size can differ from one in the trace, which not every change is in
}

// books is a reading of runtime.MemStats between two times.
type books struct {
	before, after  int64
	bytes, objects uint64
}

// readOwnHeap reads the trace of selftrace heap.
func readOwnHeap(t *testing.T, path string) *ownHeap {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := xtrace.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	h := &ownHeap{}
	offset := int64(math.MaxInt64) // of the times of the trace from CLOCK_MONOTONIC
	for {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		at := int64(ev.Time())
		switch ev.Kind() {
		case xtrace.EventMetric:
			switch m := ev.Metric(); m.Name {
			case "/memory/classes/heap/objects:bytes":
				h.alloc = append(h.alloc, heapPoint{at, m.Value.Uint64()})
			case "/gc/heap/goal:bytes":
				h.goal = append(h.goal, heapPoint{at, m.Value.Uint64()})
			}
		case xtrace.EventRangeEnd:
			if ev.Range().Name == "GC concurrent mark phase" {
				h.collections++
			}
		case xtrace.EventLog:
			if l := ev.Log(); l.Category == "loupe.books" {
				var b books
				if _, err := fmt.Sscan(l.Message, &b.before, &b.after, &b.bytes, &b.objects); err != nil {
					t.Fatal(err)
				}
				h.books = append(h.books, b)
				offset = min(offset, at-b.after)
			}
		}
	}
	for _, list := range [][]heapPoint{h.alloc, h.goal} {
		for i := range list {
			list[i].time -= offset
		}
	}
	return h
}

// around returns the values that were in force between two times.
func around(list []heapPoint, from, to int64) []uint64 {
	i := sort.Search(len(list), func(i int) bool { return list[i].time > from })
	var values []uint64
	for i = max(i-1, 0); i < len(list) && list[i].time <= to; i++ {
		values = append(values, list[i].value)
	}
	return values
}

// A sample has the time at which its reading ended. The reading began at most sampleTakes before; a few begin up to sampleStalls before,
// on a machine that lets the reader wait. sampleSlack bounds the errors of clocks.
const (
	sampleTakes  = int64(100 * time.Millisecond)
	sampleStalls = int64(2 * time.Second)
	sampleSlack  = int64(5 * time.Millisecond)
)

// TestMemoryEvents compares sampled heap sizes, heap goals and allocations with the execution trace and the runtime.MemStats of the
// target in the same seconds, and recordings of all formats with the events.
func TestMemoryEvents(t *testing.T) {
	for _, release := range testtarget.Ends(t, testtarget.Versions()) {
		t.Run("go"+release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace", Go: release}))
			testcmd.UntilSeen(t, 1500*time.Millisecond, func(d time.Duration) error { return compareHeapEvents(t, target, release, d) })
		})
	}
}

// compareHeapEvents compares what a target's heap does for a while with the target's own record of it. The error says that there was too
// little to compare.
func compareHeapEvents(t *testing.T, target *testtarget.Process, release string, d time.Duration) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	opt := truthOptions(event.KindsGC.Union(event.KindsMemory))
	opt.MemoryInterval = 5 * time.Millisecond
	events, bounds, stats := observeEach(t, target.PID(), opt, func() {}, func() {
		if answer := target.Command(fmt.Sprint("heap ", path, " ", d.Milliseconds())); answer != "heaped" {
			t.Fatal(answer)
		}
	})
	own := readOwnHeap(t, path)
	own.runway = 64 << 10
	if minorOf(t, release) < 19 {
		own.ahead = 64 << 10 // the free slots of spans that Ps are about to use, see event.MemoryReading
	}
	if minorOf(t, release) < 18 {
		own.runway, own.span = 1<<20, 8<<10
	}
	counted := compareSamples(t, own, events, (bounds.Min+bounds.Max)/2)
	t.Log(counted)
	for _, kind := range event.KindsMemory.List() {
		n := stats.Kinds[kind]
		if n.Received < uint64(counted[kind.String()]) || n.Lost != 0 {
			t.Errorf("%d samples of %v were compared; counted %+v", counted[kind.String()], kind, n)
		}
		if counted[kind.String()] < 20 {
			return fmt.Errorf("%d samples of %v were compared", counted[kind.String()], kind)
		}
	}
	if own.collections < 3 {
		return fmt.Errorf("%d collections", own.collections)
	}
	if counted["stalled"] > counted["HeapAlloc"]/20 {
		return fmt.Errorf("%d readings of %d took longer than %v", counted["stalled"], counted["HeapAlloc"], time.Duration(sampleTakes))
	}
	if counted["not in the trace"] > counted["HeapAlloc"]/5 {
		t.Errorf("%d of %d heap sizes are not in the trace", counted["not in the trace"], counted["HeapAlloc"])
	}
	return nil
}

// compareSamples compares events with what the target has recorded, and returns how many of each kind it has compared.
func compareSamples(t *testing.T, own *ownHeap, events []event.Event, offset int64) map[string]int {
	t.Helper()
	first, last := own.books[0].after, own.books[len(own.books)-1].before
	counted := map[string]int{}
	stalled := map[int64]bool{} // by time
	var wrong []string
	for i := range events {
		e := &events[i]
		at := e.Time - offset
		if at-sampleTakes < first || at+sampleSlack > last {
			continue
		}
		m, known := own.match(e, at-sampleTakes, at+sampleSlack)
		if !known {
			continue
		}
		if m == noMatch {
			// The reader may have waited within a reading, or the program between a change and the time of the change in the trace:
			// the next one then has the value.
			if m, _ = own.match(e, max(first, at-sampleStalls), own.nextChange(e.Kind, at+sampleSlack)); m != noMatch {
				stalled[at] = true
			}
		}
		counted[e.Kind.String()]++
		switch m {
		case noMatch:
			wrong = append(wrong, fmt.Sprintf("%v %d at %v", e.Kind, e.Value, time.Duration(at-first)))
		case nearMatch:
			counted["not in the trace"]++
		}
	}
	counted["stalled"] = len(stalled)
	if len(wrong) > 0 {
		t.Errorf("%d values are not the target's: %q", len(wrong), wrong[:min(len(wrong), 5)])
	}
	return counted
}

// nextChange returns when the value that a kind of event reports first changed after a time. If it did not change within
// sampleStalls, it returns the time itself.
func (own *ownHeap) nextChange(k event.Kind, after int64) int64 {
	list := own.alloc
	switch k {
	case event.HeapGoal:
		list = own.goal
	case event.AllocBytes, event.AllocObjects:
		return after
	}
	i := sort.Search(len(list), func(i int) bool { return list[i].time > after })
	if i == len(list) || list[i].time > after+sampleStalls {
		return after
	}
	return list[i].time
}

// A match says how close a program came to a value.
type match int

const (
	noMatch   match = iota
	nearMatch       // a heap size that differs by at most span
	exactMatch
)

// match searches what the program has recorded between two times for the value of an event. It returns false if that is unknown.
func (own *ownHeap) match(e *event.Event, from, to int64) (m match, known bool) {
	value := uint64(e.Value)
	switch e.Kind {
	case event.HeapAlloc:
		sizes := around(own.alloc, from, to)
		switch {
		case slices.Contains(sizes, value):
			m = exactMatch
		case slices.ContainsFunc(sizes, func(size uint64) bool { return max(size, value)-min(size, value) <= own.span }):
			m = nearMatch
		}
	case event.HeapGoal:
		if from < own.goal[0].time {
			return noMatch, false // old releases do not record the goal at the start
		}
		if slices.Contains(around(own.goal, from, to), value) || slices.Contains(around(own.alloc, from, to), value-own.runway) {
			m = exactMatch
		}
	case event.AllocBytes, event.AllocObjects:
		low := sort.Search(len(own.books), func(i int) bool { return own.books[i].after > from }) - 1
		high := sort.Search(len(own.books), func(i int) bool { return own.books[i].before >= to })
		if low < 0 || high == len(own.books) {
			return noMatch, false
		}
		a, b := own.books[low].bytes, own.books[high].bytes
		if e.Kind == event.AllocObjects {
			a, b = own.books[low].objects, own.books[high].objects
		}
		if value >= a && value <= b+own.ahead {
			m = exactMatch
		}
	default:
		return noMatch, false
	}
	return m, true
}

// TestMemoryRecorded records a live program in each format, and compares the counters in the recording with the events.
func TestMemoryRecorded(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "selftrace"}))
	opt := truthOptions(event.KindsDefault.Union(event.KindsMemory))
	opt.MemoryInterval = 10 * time.Millisecond
	events, _, _ := observeEach(t, target.PID(), opt, func() {}, func() {
		target.Command("heap " + filepath.Join(t.TempDir(), "trace") + " 1500")
	})
	series := map[string][]int64{}
	for i := range events {
		if name := counterNames[events[i].Kind]; name != "" {
			series[name] = append(series[name], events[i].Value)
		}
	}
	stream := func(yield func(*event.Event) bool) {
		for i := range events {
			if e := events[i]; !yield(&e) {
				return
			}
		}
	}
	for format, read := range map[loupe.Format]func(*testing.T, []byte) map[string][]int64{
		loupe.FormatGo: goCounters, loupe.FormatPerfetto: perfettoCounters, loupe.FormatChrome: chromeCounters,
	} {
		t.Run(string(format), func(t *testing.T) {
			var file bytes.Buffer
			kinds := event.KindsDefault.Union(event.KindsMemory)
			if _, err := loupe.Record(&file, stream, loupe.RecordOptions{Format: format, Kinds: kinds, GoVersion: "go" + testtarget.Latest()}); err != nil {
				t.Fatal(err)
			}
			compareCounters(t, read(t, file.Bytes()), series, format == loupe.FormatGo)
		})
	}
	t.Run("flight", func(t *testing.T) {
		f, err := loupe.NewFlightRecorder(loupe.FlightOptions{MinAge: time.Hour, Recording: loupe.RecordOptions{Kinds: event.KindsDefault.Union(event.KindsMemory)}})
		if err == nil {
			err = f.Record(eventSource(stream))
		}
		if err != nil {
			t.Fatal(err)
		}
		kept, err := f.Take()
		if err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := kept.Write(&file, loupe.FormatPerfetto); err != nil {
			t.Fatal(err)
		}
		compareCounters(t, perfettoCounters(t, file.Bytes()), series, false)
	})
}

// counterNames are the names of counters in timelines.
var counterNames = map[event.Kind]string{event.HeapAlloc: "heap", event.HeapGoal: "heap goal", event.AllocBytes: "allocated bytes", event.AllocObjects: "allocated objects"}

// eventSource is a loupe.EventSource.
type eventSource iter.Seq[*event.Event]

func (s eventSource) Events() iter.Seq[*event.Event] { return iter.Seq[*event.Event](s) }
func (s eventSource) Detach() error                  { return nil }

// compareCounters expects the values of a recording to be those of the events, in the same order. Timelines leave out values that follow
// another one within a millisecond, and those that do not change.
func compareCounters(t *testing.T, got, want map[string][]int64, all bool) {
	t.Helper()
	for name, values := range want {
		rest, drawn := values, got[name]
		for i, v := range drawn {
			at := slices.Index(rest, v)
			if at < 0 {
				t.Fatalf("%s: value %d is %d, which is not the next of the events", name, i, v)
			}
			rest = rest[at+1:]
		}
		changes := len(slices.Compact(slices.Clone(values)))
		t.Logf("%s: %d values, %d changes, %d drawn", name, len(values), changes, len(drawn))
		if len(values) < 5 || all && len(drawn) != len(values) || len(drawn) < changes*8/10 || drawn[len(drawn)-1] != values[len(values)-1] {
			t.Errorf("%s: %d of %d values", name, len(drawn), len(values))
		}
	}
}

// goCounters returns the counters of a Go trace: metrics, and the messages of the allocation counters.
func goCounters(t *testing.T, file []byte) map[string][]int64 {
	t.Helper()
	r, err := xtrace.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]int64{}
	for {
		ev, err := r.ReadEvent()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		switch ev.Kind() {
		case xtrace.EventMetric:
			names := map[string]string{"/memory/classes/heap/objects:bytes": "heap", "/gc/heap/goal:bytes": "heap goal"}
			if name := names[ev.Metric().Name]; name != "" {
				found[name] = append(found[name], int64(ev.Metric().Value.Uint64()))
			}
		case xtrace.EventLog:
			var kind string
			var value int64
			if l := ev.Log(); l.Category == "loupe" {
				if n, _ := fmt.Sscan(l.Message, &kind, &value); n == 2 {
					k, _ := event.ParseKind(kind)
					found[counterNames[k]] = append(found[counterNames[k]], value)
				}
			}
		}
	}
}

// chromeCounters returns the counters of a Chrome trace.
func chromeCounters(t *testing.T, file []byte) map[string][]int64 {
	t.Helper()
	var doc struct {
		TraceEvents []struct {
			Ph, Name string
			Args     map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(file, &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string][]int64{}
	for _, e := range doc.TraceEvents {
		if e.Ph != "C" {
			continue
		}
		for _, raw := range e.Args {
			var v int64
			if err := json.Unmarshal(raw, &v); err != nil {
				t.Fatal(err)
			}
			found[e.Name] = append(found[e.Name], v)
		}
	}
	return found
}

// perfettoCounters returns the counters of a Perfetto trace. The numbers of fields are those of Perfetto's schema.
func perfettoCounters(t *testing.T, file []byte) map[string][]int64 {
	t.Helper()
	names, found := map[uint64]string{}, map[string][]int64{}
	for _, packet := range messageFields(t, file) {
		for _, f := range messageFields(t, packet.bytes) {
			switch f.number {
			case 60: // TrackDescriptor
				var id uint64
				name, counter := "", false
				for _, f := range messageFields(t, f.bytes) {
					switch f.number {
					case 1:
						id = f.value
					case 2:
						name = string(f.bytes)
					case 8:
						counter = true
					}
				}
				if counter {
					names[id] = name
				}
			case 11: // TrackEvent
				var id, value uint64
				counter := false
				for _, f := range messageFields(t, f.bytes) {
					switch f.number {
					case 11:
						id = f.value
					case 30:
						value, counter = f.value, true
					}
				}
				if counter {
					found[names[id]] = append(found[names[id]], int64(value))
				}
			}
		}
	}
	return found
}

// messageField is a field of a protobuf message.
type messageField struct {
	number, value uint64
	bytes         []byte
}

func messageFields(t *testing.T, b []byte) []messageField {
	t.Helper()
	var list []messageField
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("not a protobuf message")
		}
		b = b[n:]
		return v
	}
	for len(b) > 0 {
		key := next()
		f := messageField{number: key >> 3}
		switch key & 7 {
		case 0:
			f.value = next()
		case 1:
			b = b[8:]
		case 2:
			n := next()
			f.bytes, b = b[:n], b[n:]
		default:
			t.Fatalf("wire type %d", key&7)
		}
		list = append(list, f)
	}
	return list
}

// TestMemoryOnly observes nothing but memory statistics of a program at rest: samples arrive without other events. Breaking out of the
// loop ends the session.
func TestMemoryOnly(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	s := attach(t, target.PID(), loupe.Options{Kinds: event.KindsMemory, MemoryInterval: 20 * time.Millisecond})
	kinds, late := map[event.Kind]int{}, time.Duration(0)
	for e := range s.Events() {
		late = max(late, time.Since(time.Unix(0, e.Time)))
		if kinds[e.Kind]++; kinds[event.AllocObjects] == 10 {
			break
		}
	}
	if len(kinds) != 3 || kinds[event.HeapGoal] != 10 || kinds[event.AllocBytes] != 10 {
		t.Errorf("%v", kinds)
	}
	t.Log(kinds, late)
	if late > 10*time.Second {
		t.Errorf("a sample arrived after %v", late)
	}
	m, err := s.Memory(context.Background())
	if err == nil {
		t.Errorf("a session that has ended reads %+v", m)
	}
	if n := s.Stats().Kinds[event.HeapGoal]; n.Received < 10 || n.Lost != 0 {
		t.Errorf("%+v", n)
	}
}
