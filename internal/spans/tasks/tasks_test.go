package tasks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// A scene makes spans of a made-up program, and lists the events.
type scene struct {
	r    *Recorder
	last byte
	got  []string
}

func newScene() *scene { return &scene{r: NewRecorder(7)} }

func (s *scene) span(g uint64, name string, at int64) *spans.Span {
	s.last++
	return &spans.Span{Name: name, G: g, Start: at,
		Context: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{s.last}})}
}

// note has a goroutine do something that sets note.
func (s *scene) note(g uint64, at int64, do func()) {
	s.r.Note(g, int32(g), at)
	do()
	s.r.Noted()
}

// event takes an event of the stream.
func (s *scene) event(kind event.Kind, g uint64, at int64) {
	e := &event.Event{Kind: kind, G: g, Time: at}
	s.r.Before(e)
	s.list(s.r.Ready(e))
	s.list([]event.Event{*e})
	s.list(s.r.After(e))
}

func (s *scene) list(events []event.Event) {
	for _, e := range events {
		s.got = append(s.got, textOfEvent(&e))
	}
}

func textOfEvent(e *event.Event) string {
	text := fmt.Sprintf("%d %v g%d", e.Time, e.Kind, e.G)
	if e.Value != 0 {
		text += fmt.Sprintf(" task %d", e.Value)
	}
	for _, s := range []string{e.Reason, e.Text} {
		if s != "" {
			text += " " + s
		}
	}
	return text
}

// expect compares the events with those of a text, without the messages with IDs.
func (s *scene) expect(t *testing.T, want string) {
	t.Helper()
	s.list(s.r.Rest())
	got := slices.DeleteFunc(s.got, func(line string) bool { return strings.Contains(line, "trace_id") || strings.Contains(line, "span_id") })
	if lines := strings.Fields(want); len(lines) == 0 {
		t.Fatal("no events are expected")
	}
	if want = strings.TrimSpace(strings.ReplaceAll(want, "\t", "")); strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestNested has a request with another one in it, which panics.
func TestNested(t *testing.T) {
	s := newScene()
	server, client := s.span(3, "GET", 10), s.span(3, "POST", 20)
	client.Parent = server.Context
	s.note(3, 10, func() { s.r.Begin(server) })
	s.note(3, 20, func() { s.r.Begin(client) })
	s.event(event.GoBlock, 3, 25)
	s.event(event.GoStart, 3, 30)
	server.Name = "GET /x"
	e := &event.Event{Kind: event.GoDestroy, G: 3, Time: 40}
	s.r.Before(e)
	for _, ended := range []*spans.Span{client, server} {
		ended.End = 40
		ended.Fail("panic")
		s.r.End(ended)
	}
	s.list(s.r.Ready(e))
	s.expect(t, `10 UserTaskBegin g3 task 1 GET
		10 UserRegionBegin g3 task 1 GET
		20 UserTaskBegin g3 task 2 POST
		20 UserRegionBegin g3 task 2 POST
		25 GoBlock g3
		30 GoStart g3
		40 UserRegionEnd g3 task 2 POST
		40 UserLog g3 task 2 status error: panic
		40 UserTaskEnd g3 task 2
		40 UserRegionEnd g3 task 1 GET
		40 UserLog g3 task 1 status error: panic
		40 UserTaskEnd g3 task 1`)
}

// TestNotNested ends the outer one of two spans first, and has another goroutine end the inner one.
func TestNotNested(t *testing.T) {
	s := newScene()
	outer, inner := s.span(3, "outer", 10), s.span(3, "inner", 20)
	s.note(3, 10, func() { s.r.Begin(outer) })
	s.note(3, 20, func() { s.r.Begin(inner) })
	s.note(3, 30, func() { s.r.Leave(outer) })
	s.event(event.GoBlock, 3, 40)
	s.note(4, 50, func() {
		inner.End = 50
		s.r.End(inner)
	})
	s.event(event.GoUnblock, 3, 60)
	s.event(event.GoStart, 3, 70)
	s.note(4, 80, func() {
		outer.End = 80
		s.r.End(outer)
	})
	s.expect(t, `10 UserTaskBegin g3 task 1 outer
		10 UserRegionBegin g3 task 1 outer
		20 UserTaskBegin g3 task 2 inner
		20 UserRegionBegin g3 task 2 inner
		30 UserRegionEnd g3 task 2 inner
		30 UserRegionEnd g3 task 1 outer
		30 UserRegionBegin g3 task 2 inner
		40 GoBlock g3
		50 UserLog g4 task 2 status ok
		50 UserTaskEnd g4 task 2
		60 GoUnblock g3
		70 GoStart g3
		70 UserRegionEnd g3 task 2 inner
		80 UserLog g4 task 1 status ok
		80 UserTaskEnd g4 task 1`)
	if len(s.r.regions)+len(s.r.late)+len(s.r.open) != 0 {
		t.Errorf("%d regions, %d late, %d open tasks are left", len(s.r.regions), len(s.r.late), len(s.r.open))
	}
}

// TestOwn has a span that the program makes itself, and one that goes on when its goroutine ends.
func TestOwn(t *testing.T) {
	s := newScene()
	own, sent := s.span(3, "own", 10), s.span(3, "sent", 20)
	own.Own = true
	sent.Work = &spans.Work{Allocated: &spans.Allocations{Bytes: 1234, Objects: 1}}
	s.note(3, 10, func() { s.r.Begin(own) })
	s.note(3, 20, func() { s.r.Begin(sent) })
	s.event(event.GoDestroy, 3, 30)
	for _, ended := range []*spans.Span{own, sent} {
		ended.End = 40
		s.r.End(ended) // nothing is known of the goroutine that runs
	}
	s.expect(t, `10 UserTaskBegin g3 task 1 own
		20 UserTaskBegin g3 task 2 sent
		20 UserRegionBegin g3 task 2 sent
		30 UserRegionEnd g3 task 2 sent
		30 GoDestroy g3
		40 UserLog g0 task 1 status ok
		40 UserTaskEnd g0 task 1
		40 UserLog g0 task 2 status ok
		40 UserLog g0 task 2 allocated 1,234 bytes in 1 object
		40 UserTaskEnd g0 task 2`)
}

// TestParents checks the parents of tasks: open spans, and those that have ended not too long ago.
func TestParents(t *testing.T) {
	s := newScene()
	first := s.span(3, "first", 1)
	s.r.Begin(first)
	first.End = 2
	s.r.End(first)
	child := func() uint64 {
		c := s.span(4, "child", 3)
		c.Parent = first.Context
		s.r.Begin(c)
		return s.r.ready[len(s.r.ready)-3].Object
	}
	if parent := child(); parent != 1 {
		t.Errorf("the parent is task %d, want 1", parent)
	}
	for i := range maxEnded {
		other := &spans.Span{Context: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{0, 1, byte(i >> 8), byte(i)}})}
		s.r.Begin(other)
		s.r.End(other)
	}
	if parent := child(); parent != 0 || len(s.r.ids) != maxEnded+2 {
		t.Errorf("the parent is task %d, want none; %d IDs are kept", parent, len(s.r.ids))
	}
}

func TestStatus(t *testing.T) {
	code, failed := attribute.Int("http.response.status_code", 200), attribute.String("error.type", "timeout")
	for want, s := range map[string]spans.Span{
		"ok":               {},
		"200":              {Attributes: []attribute.KeyValue{code}},
		"error: timeout":   {Status: codes.Error, Attributes: []attribute.KeyValue{failed}},
		"error: broken":    {Status: codes.Error, Attributes: []attribute.KeyValue{code}, Message: "broken"},
		"error":            {Status: codes.Error},
		"end not observed": {Ending: spans.Unobserved, Status: codes.Error},
	} {
		if got := statusOf(&s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// named passes events through Names, and returns them as text.
type named struct {
	n   *Names
	got []string
}

func (n *named) yield(e *event.Event) bool {
	n.got = append(n.got, textOfEvent(e))
	return true
}

func (n *named) add(t *testing.T, kind event.Kind, id, at int64) {
	t.Helper()
	if !n.n.Add(&event.Event{Kind: kind, Value: id, Time: at, G: 3, Text: "GET"}, n.yield) {
		t.Fatal("Add reports that the events are not wanted")
	}
}

func (n *named) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(n.got, want) {
		t.Errorf("got %q, want %q", n.got, want)
	}
	n.got = nil
}

// TestNames holds events back until the name of a task is final, or for a second.
func TestNames(t *testing.T) {
	n := &named{n: NewRecorder(7).Names()}
	n.add(t, event.GoStart, 0, 5)
	n.expect(t, "5 GoStart g3 GET")
	n.n.add(1, "GET")
	n.n.add(2, "GET")
	n.add(t, event.UserTaskBegin, 1, 10)
	n.add(t, event.UserTaskBegin, 2, 11)
	n.add(t, event.UserRegionBegin, 1, 12)
	n.add(t, event.GoStart, 0, 13)
	n.expect(t)
	n.n.set(2, "GET /two", true)
	n.add(t, event.UserTaskEnd, 2, 14)
	n.expect(t)
	n.n.set(1, "GET /one", false)
	n.add(t, event.GoStart, 0, 15)
	n.expect(t)
	n.add(t, event.GoStart, 0, 12+maxAge)
	n.expect(t, "10 UserTaskBegin g3 task 1 GET /one", "11 UserTaskBegin g3 task 2 GET /two", "12 UserRegionBegin g3 task 1 GET /one", "13 GoStart g3 GET",
		"14 UserTaskEnd g3 task 2 GET", "15 GoStart g3 GET", fmt.Sprintf("%d GoStart g3 GET", 12+maxAge))
	n.n.set(1, "GET /three", true)
	n.add(t, event.UserRegionEnd, 1, 16+maxAge)
	n.add(t, event.UserTaskEnd, 1, 17+maxAge)
	n.expect(t, fmt.Sprintf("%d UserRegionEnd g3 task 1 GET /one", 16+maxAge), fmt.Sprintf("%d UserLog g3 task 1 name GET /three", 17+maxAge),
		fmt.Sprintf("%d UserTaskEnd g3 task 1 GET", 17+maxAge))
	if len(n.n.of) != 0 || len(n.n.queue) != 0 {
		t.Errorf("%d names and %d events are left", len(n.n.of), len(n.n.queue))
	}
}

// TestNamesLimit holds back as many events as there may be, and no more.
func TestNamesLimit(t *testing.T) {
	n := &named{n: NewRecorder(7).Names()}
	n.n.add(1, "GET")
	n.add(t, event.UserTaskBegin, 1, 0)
	for i := range int64(maxHeld - 1) {
		n.add(t, event.GoStart, 0, 1+i)
	}
	n.expect(t)
	n.add(t, event.GoStart, 0, maxHeld)
	if len(n.got) != maxHeld+1 || n.got[0] != "0 UserTaskBegin g3 task 1 GET" {
		t.Errorf("%d events, the first is %q", len(n.got), n.got[0])
	}
	n.got = nil
	n.n.add(2, "GET")
	n.add(t, event.UserTaskBegin, 2, maxHeld)
	n.expect(t)
	if !n.n.Flush(n.yield) {
		t.Error("Flush reports that the events are not wanted")
	}
	n.expect(t, fmt.Sprintf("%d UserTaskBegin g3 task 2 GET", maxHeld))
}

// TestNamesStop ends when the events are not wanted any more.
func TestNamesStop(t *testing.T) {
	r := NewRecorder(7)
	names := r.Names()
	names.add(1, "GET")
	events := func(yield func(*event.Event) bool) {
		for i := range int64(3) {
			if !yield(&event.Event{Kind: event.UserTaskBegin, Value: 1, Time: i * maxAge}) {
				return
			}
		}
		t.Error("all events were taken")
	}
	for range names.Events(events) {
		break
	}
}
