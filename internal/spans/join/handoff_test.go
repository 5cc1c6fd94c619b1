package join

import (
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// unblock makes a goroutine runnable by another one with a stack. It returns whether the event is one of a goroutine in a span.
func (w *world) unblock(g, by uint64, stack ...string) bool {
	e := &event.Event{Kind: event.GoUnblock, G: g, By: by, Time: w.tick(), Stack: &event.Stack{}}
	for _, f := range stack {
		e.Stack.Frames = append(e.Stack.Frames, event.Frame{Func: f})
	}
	return w.tracker.Event(e)
}

var send = []string{"main.handle", "net/http.HandlerFunc.ServeHTTP"}

// TestHandOff hands work to a goroutine by a channel.
func TestHandOff(t *testing.T) {
	w := newWorld(t, nil)
	one, two := w.serve(1, 0x1000), w.begin(2, server, "request")
	check := func(name string, s *spans.Span, from *spans.Span) {
		t.Helper()
		switch {
		case from == nil && (len(s.Links) > 0 || s.LinkRule != ""), from != nil && (len(s.Links) != 1 || !s.Links[0].Equal(from.Context) || s.LinkRule != spans.RuleChannel):
			t.Errorf("%s: links %v by rule %q", name, s.Links, s.LinkRule)
		case from != nil && (s.Rule != spans.RuleRoot || s.Context.TraceID() == from.Context.TraceID()):
			t.Errorf("%s: parent %v by rule %q", name, s.Parent, s.Rule)
		}
		w.end(s)
	}
	if w.unblock(9, 1, send...) {
		t.Error("the event is one of a goroutine in a span")
	}
	check("work", w.begin(9, client, ""), one)
	check("the next work", w.begin(9, client, ""), nil)
	w.unblock(9, 1, send...)
	w.unblock(9, 2, send...)
	check("work of the last one", w.begin(9, client, ""), two)
	for _, f := range []string{"sync.(*Mutex).Unlock", "internal/sync.(*Mutex).Unlock", "context.(*cancelCtx).cancel", "net/http.(*Transport).putIdleConn", "runtime.gopark"} {
		w.unblock(9, 1, f, "main.handle")
		check(f, w.begin(9, client, ""), nil)
	}
	w.unblock(9, 1)
	check("without a stack", w.begin(9, client, ""), nil)
	w.unblock(9, 8, send...)
	check("of a goroutine without a span", w.begin(9, client, ""), nil)
	w.unblock(9, 1, send...)
	check("with a context", w.send(9, "", 0x1000), nil)
	w.unblock(9, 1, send...)
	w.pass(handOffLasts)
	check("too late", w.begin(9, client, ""), nil)
	w.unblock(9, 1, send...)
	check("a request", w.begin(9, server, ""), nil)
	inner := w.begin(1, client, "inner")
	w.create(3, 1) // it may send the answer to another request
	w.unblock(9, 3, send...)
	check("of a goroutine that was created", w.begin(9, client, ""), nil)
	w.unblock(9, 1, send...)
	check("in an operation", w.begin(9, client, ""), inner)
}

// TestTaken has goroutines wait until another one receives their work.
func TestTaken(t *testing.T) {
	const unbuffered, buffered = 0x100, 0x200
	w := newWorld(t, func(o *Options) { o.Unbuffered = func(channel uint64) bool { return channel == unbuffered } })
	request := w.begin(1, server, "request")
	for _, c := range []struct {
		reason  string
		channel uint64
		by      uint64
		stack   []string
		links   int
	}{
		{"chan send", unbuffered, 9, send, 1}, {"chan send", buffered, 9, send, 0}, {"chan receive", unbuffered, 9, send, 0}, {"select", 0, 9, send, 0},
		{"chan send", unbuffered, 0, nil, 0}, {"chan send", unbuffered, 9, []string{"net/http.(*persistConn).writeLoop"}, 0},
	} {
		w.event(event.GoBlock, 1, func(e *event.Event) { e.Reason, e.Object = c.reason, c.channel })
		if !w.unblock(1, c.by, c.stack...) {
			t.Error("the event is not one of a goroutine in a span")
		}
		s := w.begin(9, client, "")
		if len(s.Links) != c.links || c.links > 0 && (!s.Links[0].Equal(request.Context) || s.LinkRule != spans.RuleChannel) {
			t.Errorf("%+v: links %v by rule %q", c, s.Links, s.LinkRule)
		}
		w.end(s)
	}
}

// TestHandOffs hands work on to many goroutines that do nothing with it.
func TestHandOffs(t *testing.T) {
	w := newWorld(t, nil)
	w.begin(1, server, "request")
	for g := range uint64(2 * maxHandOffs) {
		w.unblock(100+g, 1, send...)
	}
	if n := len(w.tracker.handOffs); n > maxHandOffs {
		t.Errorf("%d are kept, want at most %d", n, maxHandOffs)
	}
}

// TestHandOffTraces has one goroutine work for many requests: no trace contains the work for two.
func TestHandOffTraces(t *testing.T) {
	w := newWorld(t, nil)
	first := w.begin(1, server, "request")
	w.create(9, 1) // the worker is created in a request
	w.end(first)
	w.block(9, "chan receive", "runtime.chanrecv", "main.worker")
	traces := map[string]bool{}
	const n = 1000
	for i := range uint64(n) {
		request := w.begin(10+i, server, "request")
		w.unblock(9, 10+i, send...)
		s := w.begin(9, client, fmt.Sprint(i))
		w.end(request)
		w.end(s)
		traces[s.Context.TraceID().String()] = true
		if len(s.Links) != 1 || !s.Links[0].Equal(request.Context) {
			t.Fatalf("work %d: links %v, want %v", i, s.Links, request.Context)
		}
	}
	if len(traces) != n || traces[first.Context.TraceID().String()] {
		t.Errorf("%d traces, want %d other ones than that of the first request", len(traces), n)
	}
}
