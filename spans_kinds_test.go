package loupe

import (
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/spans"
)

// TestSpanKinds checks which kinds of events a session with spans observes.
func TestSpanKinds(t *testing.T) {
	handle := func(*spans.Span) {}
	inlined, uprobes := inline.New(nil, ""), uprobe.New(uprobe.Options{})
	for _, c := range []struct {
		name   string
		opt    Options
		engine probe.Engine
		want   event.Kinds
	}{
		{"inline", Options{Spans: SpanOptions{Handle: handle}}, inlined, workKinds.Union(event.KindsSyscall)},
		{"uprobe", Options{Spans: SpanOptions{Handle: handle}}, uprobes, workKinds},
		{"uprobe with system calls", Options{Spans: SpanOptions{Handle: handle, Syscalls: true}}, uprobes, workKinds.Union(event.KindsSyscall)},
		{"no breakdown", Options{Spans: SpanOptions{Handle: handle, NoWork: true, Syscalls: true}}, inlined, bareKinds},
		{"other kinds", Options{Spans: SpanOptions{Handle: handle, Syscalls: true}, Kinds: event.KindsGC}, inlined, event.KindsGC},
		{"no spans", Options{}, inlined, event.KindsDefault},
	} {
		if got := c.opt.withSpanKinds(c.engine).want().Kinds; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
