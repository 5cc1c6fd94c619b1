package redis

import (
	"fmt"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// A world is a decoder whose notes a test makes up. Each step takes a nanosecond.
type world struct {
	*decoder
	now   int64
	ended []string
	count int
}

func newWorld() *world {
	w := &world{}
	tracker := join.NewTracker(join.Options{Handle: func(s *spans.Span) {
		w.count++
		text := fmt.Sprintf("%s %d-%d", s.Name, s.Start, s.End)
		if s.Status == codes.Error {
			text += " failed"
			for _, kv := range s.Attributes {
				text += " " + kv.Value.String()
			}
		}
		if s.Ending != spans.Returned {
			text += fmt.Sprintf(" ending %d", s.Ending)
		}
		w.ended = append(w.ended, text)
	}})
	w.decoder = newDecoder(V9, tracker, nil, Options{})
	return w
}

func (w *world) note() *probe.Note {
	w.now++
	return &probe.Note{G: 1, Time: w.now}
}

// begin begins an operation of a client at a depth, which is attempted again once.
func (w *world) begin(name string, client, depth uint64) *operation {
	n := w.note()
	s := &spans.Span{Name: name, G: n.G, Start: n.Time, Kind: trace.SpanKindClient, Library: V9}
	op := &operation{client: client, depth: depth, retries: 1, span: s}
	w.decoder.begin(n, op)
	return op
}

// connect begins an operation that is not reported.
func (w *world) connect(client, depth uint64) {
	w.decoder.begin(w.note(), &operation{client: client, depth: depth})
}

var (
	eof   = failure{kind: "*errors.errorString", text: "EOF"}
	wrong = failure{kind: "WRONGTYPE", status: "WRONGTYPE", redis: true}
	late  = failure{kind: "context.deadlineExceededError"}
	null  = failure{kind: "proto.RedisError", text: "redis: nil", redis: true}
	none  = failure{}
)

func TestDecoder(t *testing.T) {
	const outer, inner = 100, 1000 // depths
	exit := func(w *world) { w.tracker.Event(&event.Event{Kind: event.GoDestroy, G: 1, Time: w.now + 1}) }
	for name, test := range map[string]struct {
		steps func(w *world)
		want  []string
	}{
		"success": {func(w *world) {
			w.begin("get", 1, outer)
			w.release(w.note(), 1, none, nil)
			w.begin("set", 1, outer)
			w.release(w.note(), 1, none, nil)
		}, []string{"get 1-2", "set 3-4"}},
		"errors": {func(w *world) {
			w.begin("get", 1, outer)
			w.release(w.note(), 1, wrong, nil)
			w.failed(w.note(), outer+50, wrong)
			w.begin("none", 1, outer)
			w.release(w.note(), 1, null, nil)
			w.failed(w.note(), outer+50, null)
		}, []string{"get 1-2 failed WRONGTYPE WRONGTYPE", "none 4-5"}},
		"another attempt": {func(w *world) {
			w.begin("get", 1, outer)
			w.release(w.note(), 1, eof, nil)
			w.failed(w.note(), outer+50, eof)
			w.slept(w.note(), outer+90, none)
			w.release(w.note(), 1, none, nil)
		}, []string{"get 1-5"}},
		"no connection, and no more attempts": {func(w *world) {
			w.begin("get", 1, outer)
			w.failed(w.note(), outer+50, eof)
			w.slept(w.note(), outer+90, none)
			w.failed(w.note(), outer+50, eof)
		}, []string{"get 1-4 failed *errors.errorString"}},
		"the context ends during a pause": {func(w *world) {
			w.begin("get", 1, outer)
			w.failed(w.note(), outer+50, eof)
			w.slept(w.note(), outer+90, late)
		}, []string{"get 1-3 failed context.deadlineExceededError"}},
		"no other attempt": {func(w *world) {
			w.begin("get", 1, outer)
			w.release(w.note(), 1, eof, nil)
			w.failed(w.note(), outer+50, eof)
			w.begin("set", 1, outer)
			w.release(w.note(), 1, none, nil)
		}, []string{"get 1-2 failed *errors.errorString", "set 4-5"}},
		"a connection begins": {func(w *world) {
			w.begin("get", 1, outer)
			w.connect(2, inner)
			w.release(w.note(), 2, eof, nil)
			w.failed(w.note(), inner+50, eof)
			w.slept(w.note(), inner+90, none)
			w.failed(w.note(), inner+50, eof)
			w.connect(3, inner+500)
			w.release(w.note(), 3, none, nil)
			w.release(w.note(), 1, none, nil)
		}, []string{"get 1-9"}},
		"a connection cannot begin": {func(w *world) {
			w.begin("get", 1, outer)
			w.connect(2, inner)
			w.release(w.note(), 2, wrong, nil)
			w.failed(w.note(), inner+50, wrong)
			w.failed(w.note(), outer+50, wrong)
		}, []string{"get 1-5 failed WRONGTYPE WRONGTYPE"}},
		"a sentinel is asked": {func(w *world) {
			w.begin("get", 1, outer)
			w.begin("sentinel", 2, inner)
			w.release(w.note(), 2, wrong, nil)
			w.failed(w.note(), inner+50, wrong)
			w.release(w.note(), 1, none, nil)
			w.failed(w.note(), outer-50, wrong)
		}, []string{"sentinel 2-3 failed WRONGTYPE WRONGTYPE", "get 1-5"}},
		"lost ends": {func(w *world) {
			w.begin("get", 1, outer)
			w.begin("set", 1, outer+10)
			w.begin("incr", 2, outer)
			w.release(w.note(), 2, none, nil)
		}, []string{"get 1-2 ending 2", "set 2-3 ending 2", "incr 3-4"}},
		"a batch": {func(w *world) {
			w.begin("PIPELINE", 1, outer).batch = 7
			w.batchFailed(w.note(), 8, wrong)
			w.failed(w.note(), outer+50, eof)
			w.batchFailed(w.note(), 7, eof)
			w.release(w.note(), 1, none, nil)
		}, []string{"PIPELINE 1-4 failed *errors.errorString"}},
		"the goroutine of a node has no connection": {func(w *world) {
			n := w.note()
			op := &operation{client: 1, depth: outer, node: true, batch: 7, span: &spans.Span{Name: "PIPELINE", G: 1, Start: n.Time, Library: V9}}
			w.decoder.begin(n, op)
			w.failed(w.note(), outer+50, eof)
			exit(w)
		}, []string{"PIPELINE 1-3 failed _OTHER"}},
		"the goroutine panics": {func(w *world) {
			w.begin("get", 1, outer)
			exit(w)
		}, []string{"get 1-2 failed ending 1"}},
		"ends without begins": {func(w *world) {
			w.release(w.note(), 1, none, nil)
			w.failed(w.note(), outer, eof)
			w.batchFailed(w.note(), 0, eof)
			w.slept(w.note(), outer, eof)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.steps(w)
			if !slices.Equal(w.ended, test.want) {
				t.Errorf("got %q, want %q", w.ended, test.want)
			}
		})
	}
}

// TestDecoderKeepsLittle begins operations on many goroutines, of which few remain.
func TestDecoderKeepsLittle(t *testing.T) {
	w := newWorld()
	const goroutines = 10 * minLimit
	for g := range uint64(goroutines) {
		n := &probe.Note{G: g + 1, Time: int64(g) + 1}
		w.decoder.begin(n, &operation{client: 1, depth: 100, span: &spans.Span{Name: "get", G: n.G, Start: n.Time, Library: V9}})
		if g%1000 != 0 {
			w.release(n, 1, none, nil)
		}
	}
	if w.count != goroutines-goroutines/1000-1 || len(w.goroutines) > minLimit {
		t.Errorf("%d operations ended, %d goroutines are kept", w.count, len(w.goroutines))
	}
}
