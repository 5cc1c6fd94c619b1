package chrome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/exporttest"
)

var everything = Options{Process: "orders", Kinds: exporttest.AllKinds, Threads: true, CounterInterval: -1}

// document is the form of a trace, with no other members than these.
type document struct {
	DisplayTimeUnit string            `json:"displayTimeUnit"`
	OtherData       map[string]string `json:"otherData"`
	TraceEvents     []jsonEvent       `json:"traceEvents"`
}

type jsonEvent struct {
	Phase string         `json:"ph"`
	PID   int64          `json:"pid"`
	TID   uint64         `json:"tid"`
	Time  json.Number    `json:"ts"`
	Name  string         `json:"name"`
	Cat   string         `json:"cat"`
	ID    any            `json:"id"`
	Scope string         `json:"s"`
	Bind  string         `json:"bp"`
	Args  map[string]any `json:"args"`
}

func write(t testing.TB, events []event.Event, opt Options) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, opt)
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Bytes != uint64(b.Len()) || s.Events != uint64(len(events)) {
		t.Fatalf("%d bytes counted of %d, %d events of %d", s.Bytes, b.Len(), s.Events, len(events))
	}
	return b.Bytes()
}

func parse(t testing.TB, trace []byte) *document {
	t.Helper()
	if !json.Valid(trace) {
		t.Fatalf("not valid:\n%.2000s", trace)
	}
	for i, c := range trace {
		if c < ' ' && c != '\n' || c == 0x7f {
			t.Fatalf("control character %#x at byte %d", c, i)
		}
	}
	decoder := json.NewDecoder(bytes.NewReader(trace))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	doc := &document{}
	if err := decoder.Decode(doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// drawing makes a drawing of a document.
func drawing(t testing.TB, doc *document) *exporttest.Drawing {
	t.Helper()
	d := &exporttest.Drawing{}
	for n := range doc.TraceEvents {
		if e := &doc.TraceEvents[n]; e.Phase == "s" || e.Phase == "f" {
			bind(t, d, e)
		} else if i, ok := item(t, e); ok {
			d.Items = append(d.Items, i)
		}
	}
	return d
}

// bind ties a flow event to the item before it, to whose slice it belongs.
func bind(t testing.TB, d *exporttest.Drawing, e *jsonEvent) {
	t.Helper()
	i := &d.Items[len(d.Items)-1]
	if i.Track != fmt.Sprintf("g %d", e.TID) || i.At != nanoseconds(t, e.Time) || e.Cat != "flow" || e.Name != "flow" || (e.Phase == "f") != (e.Bind == "e") {
		t.Fatalf("flow %+v after %s", e, i)
	}
	i.Flow = map[string]string{"s": "> ", "f": "< "}[e.Phase] + fmt.Sprint(e.ID)
	if open := 0; e.Phase == "s" { // it needs a slice around it
		for _, x := range d.Items {
			if x.Track == i.Track {
				open += map[byte]int{'B': 1, 'E': -1}[x.What]
			}
		}
		if open == 0 {
			t.Fatalf("flow %+v begins outside of all slices", e)
		}
	}
}

func nanoseconds(t testing.TB, n json.Number) int64 {
	t.Helper()
	micros, nanos, ok := strings.Cut(string(n), ".")
	v, err := strconv.ParseInt(micros+nanos, 10, 64)
	if !ok || len(nanos) != 3 || err != nil {
		t.Fatalf("time %q: %v", n, err)
	}
	return v
}

const testPID = 1234

// item makes an item of an event; false for the names of processes and of the thread that is none.
func item(t testing.TB, e *jsonEvent) (exporttest.Item, bool) {
	t.Helper()
	i := exporttest.Item{Name: e.Name, Category: e.Cat, Track: fmt.Sprintf("g %d", e.TID)}
	switch e.PID {
	case testPID:
	case testPID + 1<<22:
		i.Track = fmt.Sprintf("thread %d", e.TID)
	default:
		t.Fatalf("process %d", e.PID)
	}
	if e.Phase == "M" {
		i.What, i.Name = 'T', e.Args["name"].(string)
		return i, e.Name == "thread_name" && e.TID != 0
	}
	i.At = nanoseconds(t, e.Time)
	what, ok := map[string]byte{"B": 'B', "E": 'E', "i": 'I', "C": 'C', "b": 'B', "e": 'E', "n": 'I'}[e.Phase]
	if !ok {
		t.Fatalf("phase %q", e.Phase)
	}
	i.What = what
	switch {
	case e.ID != nil:
		id := e.ID.(string)
		of := strings.TrimLeft(id, "abcdefghijklmnopqrstuvwxyz ")
		i.Track = map[string]string{"region": "g " + of + " regions", "task": "task " + of, "gc": "GC", "stw": "stop the world", "lost": "lost events"}[e.Cat]
		if !strings.HasPrefix(id, e.Cat+" ") || strings.ToLower(e.Phase) != e.Phase {
			t.Fatalf("asynchronous event %+v", e)
		}
	case e.Phase == "i" && e.Scope == "p":
		i.Track = "process"
	case e.Phase == "i" && e.Scope != "t", e.Phase == "b", e.Phase == "e", e.Phase == "n":
		t.Fatalf("event %+v", e)
	}
	if i.What == 'C' {
		i.Track = e.Name
		unit := map[bool]string{true: "bytes", false: "count"}[slices.Contains([]string{"heap", "heap goal", "allocated bytes"}, e.Name)]
		v, err := e.Args[unit].(json.Number).Int64()
		if err != nil || len(e.Args) != 1 {
			t.Fatalf("counter %+v", e)
		}
		i.Value = v
		return i, true
	}
	for k, v := range e.Args {
		if frames, ok := v.([]any); ok {
			for n, f := range frames {
				i.Stack += map[bool]string{true: " < "}[n > 0] + f.(string)
			}
			continue
		}
		i.Args = append(i.Args, fmt.Sprintf("%s=%v", k, v))
	}
	return i, true
}

// same fails unless a trace shows what package timeline tells of the stream, and that is sound.
func same(t testing.TB, name string, events []event.Event, opt Options) {
	t.Helper()
	got := drawing(t, parse(t, write(t, events, opt)))
	if err := got.Check(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	frames := opt.Frames
	if frames == 0 {
		frames = DefaultFrames
	}
	want, _ := exporttest.Record(events, opt, true, frames)
	g, w := strings.Split(got.Tracks(), "\n"), strings.Split(want.Tracks(), "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s: line %d of %d:\n%s\nwant of %d:\n%s", name, i, len(g), g[i], len(w), strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%s: %d lines, want %d", name, len(g), len(w))
	}
}

func TestScript(t *testing.T) {
	same(t, "script", exporttest.Script(), everything)
	trace := write(t, exporttest.Script(), everything)
	for _, want := range []string{
		`{"displayTimeUnit":"ns","otherData":{"producer":"loupe","start":"2023-11-14T22:13:20Z","startNanoseconds":"1700000000000000000"},"traceEvents":[` + "\n",
		`{"ph":"M","pid":1234,"tid":0,"name":"process_name","args":{"name":"orders"}},` + "\n",
		`{"ph":"M","pid":1234,"tid":18,"name":"thread_name","args":{"name":"g 18 main.worker"}},` + "\n",
		`{"ph":"B","pid":1234,"tid":18,"ts":0.400,"cat":"blocked","name":"chan receive","args":{"stack":["runtime.chanrecv1 /go/chan.go:9","main.worker /src/worker.go:7","…"]}},` + "\n",
		`{"ph":"i","pid":1234,"tid":1,"ts":0.600,"s":"t","cat":"wake","name":"unblock","args":{"goroutine":18,"stack":["main.main /src/main.go:12"]}},` + "\n" +
			`{"ph":"s","pid":1234,"tid":1,"ts":0.600,"cat":"flow","name":"flow","id":2},` + "\n",
		`{"ph":"f","pid":1234,"tid":18,"ts":0.800,"bp":"e","cat":"flow","name":"flow","id":2},` + "\n",
		`{"ph":"b","pid":1234,"tid":0,"ts":1.600,"id":"stw 0","cat":"stw","name":"start GC","args":{"by_goroutine":18}},` + "\n",
		`{"ph":"C","pid":1234,"tid":0,"ts":1.100,"name":"heap","args":{"bytes":1048576}},` + "\n",
		`{"ph":"C","pid":1234,"tid":0,"ts":1.200,"name":"heap goal","args":{"bytes":4194304}},` + "\n",
		`{"ph":"M","pid":4195538,"tid":0,"name":"process_name","args":{"name":"threads of orders"}},` + "\n",
		`{"ph":"E","pid":4195538,"tid":7,"ts":4.100,"args":{"cut":"the observation ended"}}` + "\n]}\n",
	} {
		if !strings.Contains(string(trace), want) {
			t.Errorf("%s\nis not in\n%s", want, trace)
		}
	}
}

func TestAnyStream(t *testing.T) {
	for seed := range uint64(2) {
		whole := exporttest.Random(seed, 2000)
		for _, opt := range []Options{everything, {}, {Frames: -1, MinBlock: 1}} {
			same(t, "whole", whole, opt)
			same(t, "20 % lost", exporttest.Lose(seed, whole, 5), opt)
			same(t, "noise", exporttest.Noise(seed, 1000), opt)
		}
	}
}

// TestEndedEarly closes after each number of events: the document is always valid.
func TestEndedEarly(t *testing.T) {
	events := exporttest.Script()
	for n := range events {
		parse(t, write(t, events[:n], everything))
	}
}

// TestHostileTexts has texts that must not break out of their strings, in every place where a text may be.
func TestHostileTexts(t *testing.T) {
	for _, text := range exporttest.HostileTexts {
		o := &event.Origin{Start: event.Frame{Func: text}}
		s := &event.Stack{Frames: []event.Frame{{Func: text, File: text}}}
		events := []event.Event{
			{Kind: event.GoStatus, G: 1, State: event.StateRunning, Origin: o, PID: testPID},
			{Kind: event.GoCreate, G: 2, Parent: 1, Origin: o, Stack: s},
			{Kind: event.GoBlock, G: 1, Reason: text, TraceReason: text + "x", Stack: s},
			{Kind: event.STWBegin, Reason: text},
			{Kind: event.UserTaskBegin, G: 1, Value: 1, Text: text},
			{Kind: event.UserRegionBegin, G: 1, Text: text},
			{Kind: event.UserLog, G: 1, Text: text, Reason: text},
		}
		opt := everything
		opt.Process = text
		same(t, strconv.Quote(text), events, opt)
		if trace := string(write(t, events, opt)); strings.Contains(trace, "\u202e") || strings.Contains(trace, "\u2028") {
			t.Errorf("%q comes through: %s", text, trace)
		}
	}
}

// TestTimes has times at the ends of what can be told.
func TestTimes(t *testing.T) {
	events := []event.Event{{Kind: event.GoStart, G: 1, Time: math.MinInt64, PID: testPID}, {Kind: event.GoStop, G: 1, Time: math.MaxInt64, PID: testPID}}
	if trace := string(write(t, events, Options{})); !strings.Contains(trace, `"ts":9223372036854775.807`) {
		t.Error(trace)
	}
	same(t, "times", events, Options{})
}

// TestStacksAreBounded has more stacks than are kept.
func TestStacksAreBounded(t *testing.T) {
	w := NewWriter(&bytes.Buffer{}, Options{})
	for i := range 3000 {
		s := &event.Stack{Frames: []event.Frame{{Func: strings.Repeat("x", 20_000), Line: i}}}
		if err := w.Write(&event.Event{Kind: event.GoBlock, G: 1, Reason: "select", Stack: s}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.stacks); n > maxStackBytes/20_000+1 {
		t.Errorf("%d stacks are kept", n)
	}
}

func TestErrors(t *testing.T) {
	exporttest.Errors(t, func(w io.Writer) exporttest.Exporter { return NewWriter(w, Options{}) })
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("GoStart does not come alone, it is followed by others."), true)
	f.Fuzz(func(t *testing.T, data []byte, all bool) {
		opt := Options{}
		if all {
			opt = everything
		}
		same(t, "fuzz", exporttest.FromBytes(data[:min(len(data), 5_000)]), opt)
	})
}
