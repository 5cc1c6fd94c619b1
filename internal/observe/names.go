package observe

import (
	"fmt"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/glti/observe/wire"
	"github.com/loupe-go/loupe/internal/goproc"
)

// Limits on the memory for what an agent sends once. They are those of the agent.
const (
	maxNames = 1 << 18
	// maxTextBytes is a limit for all texts.
	maxTextBytes = 64 << 20
	// maxFrames is a limit for the frames of all stacks.
	maxFrames = 4 << 20
)

// names are the places and stacks that the agent has sent.
type names struct {
	goVersion string
	reasons   []string
	tracer    []string // reasons of the execution tracer
	texts     []string // by number
	textBytes int
	frames    int

	sites   map[uint64]event.Frame
	funcs   map[uint64]event.Frame
	stacks  map[uint64]*event.Stack
	origins map[[2]uint64]*event.Origin
}

func newNames(w *wire.Welcome) *names {
	return &names{goVersion: w.GoVersion, reasons: w.Reasons, tracer: w.Tracer, texts: []string{""}, sites: map[uint64]event.Frame{}, funcs: map[uint64]event.Frame{},
		stacks: map[uint64]*event.Stack{}, origins: map[[2]uint64]*event.Origin{}}
}

// add stores what a message contains. ok is false if the agent exceeds a limit.
func (n *names) add(m wire.Message) (ok bool) {
	switch m := m.(type) {
	case *wire.Text:
		n.texts, n.textBytes = append(n.texts, m.Text), n.textBytes+len(m.Text)
	case *wire.Site:
		n.sites[m.PC] = n.frame(m.Frame)
	case *wire.Func:
		n.funcs[m.PC] = n.frame(m.Frame)
	case *wire.Stack:
		n.addStack(m)
	}
	return len(n.texts) <= maxNames+1 && n.textBytes <= maxTextBytes && n.frames <= maxFrames &&
		len(n.sites) <= maxNames && len(n.funcs) <= maxNames && len(n.stacks) <= maxNames
}

func (n *names) frame(f wire.Frame) event.Frame {
	return event.Frame{Func: n.text(f.Func), File: n.text(f.File), Line: int(min(f.Line, 1<<31-1))}
}

func (n *names) text(i uint64) string {
	if i < uint64(len(n.texts)) {
		return n.texts[i]
	}
	return ""
}

func (n *names) addStack(m *wire.Stack) {
	n.frames += len(m.Frames)
	calls := make([]event.Frame, len(m.Frames))
	for i, f := range m.Frames {
		calls[i] = n.frame(f)
	}
	n.stacks[m.ID] = &event.Stack{Frames: goproc.VisibleCalls(n.goVersion, calls), Truncated: m.Truncated}
}

// stack returns a stack, or nil if it is unknown.
func (n *names) stack(id uint64) *event.Stack { return n.stacks[id] }

// origin returns where a goroutine was created, given the addresses of the go statement and of the function.
func (n *names) origin(site, start uint64) *event.Origin {
	key := [2]uint64{site, start}
	if o, ok := n.origins[key]; ok {
		return o
	}
	o := &event.Origin{CreatedBy: n.sites[site], Start: n.funcs[start]}
	o.System = goproc.IsSystemStart(o.Start.Func)
	if len(n.origins) < maxNames {
		n.origins[key] = o
	}
	return o
}

// traceReason returns the text of a reason of the execution tracer.
func (n *names) traceReason(i uint64) string {
	if i < uint64(len(n.tracer)) {
		return n.tracer[i]
	}
	return ""
}

// reason returns the text of a wait reason.
func (n *names) reason(i uint64) string {
	if i < uint64(len(n.reasons)) {
		return n.reasons[i]
	}
	return fmt.Sprintf("unknown wait reason %d", i)
}
