package tui

import (
	"strconv"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// historyShown is how many of its last events one goroutine is shown with.
const historyShown = 200

// onePage shows one goroutine: what it does, where, who made and woke it, and what happened to it.
type onePage struct {
	id    uint64
	one   *live.One // nil until it was looked at
	now   int64
	pager pager
}

func newOne(id uint64) *onePage { return &onePage{id: id} }

func (o *onePage) name(*Model) string  { return "goroutine " + strconv.FormatUint(o.id, 10) }
func (o *onePage) query(q *live.Query) { q.About, q.ID, q.Limit = live.AboutOne, o.id, historyShown }
func (o *onePage) filtering() *string  { return nil }

func (o *onePage) keys() []hint {
	list := []hint{{"↑↓", "scroll"}}
	if o.one != nil && o.one.Waker != 0 {
		list = append(list, hint{"W", "its waker"})
	}
	if o.one != nil && o.one.Parent != 0 {
		list = append(list, hint{"P", "its parent"})
	}
	return list
}

func (o *onePage) refresh(m *Model) {
	d, ok := m.detail()
	if !ok {
		return
	}
	one := d.One
	if !one.Alive && o.one != nil {
		history := one.History
		one = *o.one // what was known of it last
		one.Alive, one.History = false, history
	}
	o.one, o.now = &one, m.picture.Now
}

func (o *onePage) status(m *Model) string {
	return o.pager.status(len(o.lines(m, max(m.width, 1))), m.bodyHeight())
}

func (o *onePage) draw(m *Model, w, h int) []string { return o.pager.show(o.lines(m, w), h) }

func (o *onePage) press(m *Model, key string) outcome {
	if o.one != nil {
		switch {
		case key == "W" && o.one.Waker != 0:
			return outcome{open: newOne(o.one.Waker)}
		case key == "P" && o.one.Parent != 0:
			return outcome{open: newOne(o.one.Parent)}
		}
	}
	o.pager.press(key, len(o.lines(m, max(m.width, 1))), m.bodyHeight())
	return outcome{}
}

// sideBySide is the width from which on history and stacks stand beside each other.
const sideBySide = 150

// lines is the whole page.
func (o *onePage) lines(m *Model, w int) []string {
	th, g := m.theme, o.one
	if g == nil {
		return []string{th.paint(dim, "  …")}
	}
	if !g.Alive && g.Seen == 0 && g.Parent == 0 && len(g.History) == 0 {
		return []string{"", "  goroutine " + strconv.FormatUint(g.ID, 10) + th.paint(dim, " has ended, and no data about it is kept")}
	}
	lines := o.summary(th, w)
	if w < sideBySide {
		lines = append(lines, o.stacks(th, w)...)
		return append(lines, o.history(m, w)...)
	}
	left := w * 11 / 20
	stacks, history := o.stacks(th, left), o.history(m, w-left-len(gap))
	for i := range max(len(stacks), len(history)) {
		l, r := "", ""
		if i < len(stacks) {
			l = stacks[i]
		}
		if i < len(history) {
			r = history[i]
		}
		lines = append(lines, pad(l, left, false)+gap+r)
	}
	return lines
}

// summary is what it does now, and how it spent its time.
func (o *onePage) summary(th theme, w int) []string {
	g := o.one
	first := []segment{seg(0, piece{" " + stateWord(g.State), stateTone(g.State)})}
	if g.Reason != "" {
		first = append(first, seg(0, piece{safe(g.Reason), strong}))
	}
	first = append(first, seg(0, piece{"for ", dim}, piece{span(g.InState(o.now)), strong}))
	if !g.Alive {
		first = []segment{seg(0, piece{" ended", bad}), seg(1, piece{"last known data", dim})}
	}
	if g.Uncertain {
		first = append(first, seg(1, piece{"uncertain: events were lost", bad}))
	}
	first = append(first, seg(2, piece{"runs ", dim}, piece{siteFunc(g.Origin, false), name}))
	whole := g.Running + g.Runnable + g.Blocked + g.Syscall + g.InDoubt
	times := []segment{seg(0, piece{" since first event ", dim})}
	for _, t := range []struct {
		word string
		time time.Duration
		tone tone
		rank int
	}{
		{"running", g.Running, good, 1}, {"ready", g.Runnable, warn, 2}, {"blocked", g.Blocked, plain, 1},
		{"in syscalls", g.Syscall, blue, 3}, {"uncertain", g.InDoubt, bad, 3},
	} {
		if t.time > 0 || t.rank < 3 {
			part := percent(float64(t.time), float64(whole))
			times = append(times, seg(t.rank, piece{t.word + " ", dim}, piece{span(t.time), t.tone}, piece{" " + part, dim}))
		}
	}
	counts := []segment{seg(0, counted(" "+number(g.Starts), "starts")...), seg(0, counted(number(g.Blocks), "waits")...)}
	if g.Repairs > 0 {
		counts = append(counts, seg(1, counted(number(uint64(g.Repairs)), "contradictory events")...))
	}
	counts = append(counts, seg(4, shares(sched.Times{Running: sched.NanosOf(g.Running), Runnable: sched.NanosOf(g.Runnable),
		Blocked: sched.NanosOf(g.Blocked), Syscall: sched.NanosOf(g.Syscall), Uncertain: sched.NanosOf(g.InDoubt)}, 30)...))
	return []string{th.line(w, "  ", first...), th.line(w, "  ", times...), th.line(w, "  ", counts...), ""}
}

// stacks are where it is, who woke it and who made it.
func (o *onePage) stacks(th theme, w int) []string {
	g := o.one
	where := "WHERE IT IS"
	switch {
	case !g.Alive || g.State == event.StateRunning || g.State == event.StateRunnable:
		where = "WHERE IT WAS LAST"
	}
	lines := section(th, w, where, nil, g.Stack, "no stack recorded")
	if g.Woken {
		by := []piece{{" by goroutine " + strconv.FormatUint(g.Waker, 10), plain}, {wherefrom(g.WakerOrigin), name}}
		if g.Waker == 0 {
			by = []piece{{" by the runtime (network, timer or garbage collector)", plain}}
		}
		lines = append(lines, section(th, w, "LAST WOKEN", by, g.WakeStack, "")...)
	}
	when := "before the observation"
	switch {
	case g.Created != 0:
		when = span(time.Duration(o.now-g.Created)) + " ago"
	case !g.Alive && g.Seen == 0:
		when = "at an unknown time"
	}
	by := []piece{{" " + when, plain}}
	for i, c := range g.Creators {
		link := " < "
		if i == 0 {
			link = " by goroutine "
		}
		by = append(by, piece{link + strconv.FormatUint(c.ID, 10), plain}, piece{wherefrom(c.Origin), name})
	}
	stack := g.CreationStack
	if stack == nil && g.Origin != nil && !g.Origin.CreatedBy.IsZero() {
		stack = &event.Stack{Frames: []event.Frame{g.Origin.CreatedBy}}
	}
	return append(lines, section(th, w, "CREATED", by, stack, "place unknown")...)
}

// wherefrom adds what a goroutine runs to its number.
func wherefrom(o *event.Origin) string {
	if o == nil {
		return ""
	}
	return " " + siteFunc(o, false)
}

// section is a stack with its heading.
func section(th theme, w int, head string, about []piece, s *event.Stack, without string) []string {
	line := " " + th.paint(heading, head)
	for _, p := range about {
		line += th.paint(p.tone, p.text)
	}
	lines := []string{clip(line, w)}
	switch {
	case s == nil && without != "":
		lines = append(lines, "   "+th.paint(dim, without))
	case s != nil:
		for _, f := range s.Frames {
			lines = append(lines, frameLine(th, f, w))
		}
		if s.Truncated {
			lines = append(lines, "   "+th.paint(dim, "more frames were not recorded"))
		}
	}
	return append(lines, "")
}

// history is its last events, the newest first.
func (o *onePage) history(m *Model, w int) []string {
	th, g := m.theme, o.one
	head := " " + th.paint(heading, "HISTORY")
	switch n := len(g.History); {
	case g.HistoryHolds == 0:
		return []string{head + th.paint(dim, " disabled (--history 0)")}
	case n == 0:
		return []string{head + th.paint(dim, " none among the last "+number(uint64(g.HistoryHolds))+" events of the program")}
	case n >= historyShown:
		head += th.paint(dim, " last "+number(uint64(n))+" events, newest first")
	default:
		head += th.paint(dim, " newest first")
	}
	lines := []string{head}
	for i := len(g.History) - 1; i >= 0; i-- {
		var before *event.Event
		if i > 0 {
			before = &g.History[i-1]
		}
		lines = append(lines, happened(th, o.now, before, &g.History[i], m.target.Module, w))
	}
	return lines
}

// toneColours are the colours of the tones of events.
var toneColours = [...]tone{event.ToneGood: good, event.ToneWarn: warn, event.ToneBad: bad, event.ToneDim: dim, event.ToneOutside: blue}

// happened is a line of the history: how long ago, what, and how long the state before it lasted.
func happened(th theme, now int64, before, e *event.Event, module string, w int) string {
	lasted := ""
	if before != nil && e.Time > before.Time {
		lasted = span(time.Duration(e.Time - before.Time))
	}
	what, t := e.Kind.String(), toneColours[e.Kind.Describe().Tone]
	add := func(word, text string) {
		if text != "" {
			what += word + text
		}
	}
	switch e.Kind {
	case event.GoStatus:
		what = "present, " + stateWord(e.State)
		add(": ", safe(e.WaitReason()))
	case event.GoCreate:
		what = "created"
		if e.Parent != 0 {
			add(" by goroutine ", strconv.FormatUint(e.Parent, 10))
		}
	case event.GoStart:
		what = "started running"
		add(" after ", lasted)
	case event.GoStop:
		what = "stopped"
		add(" after ", lasted)
		add(": ", safe(e.StopReason()))
	case event.GoBlock:
		what = "blocked"
		add(" after ", lasted)
		add(": ", safe(e.WaitReason()))
	case event.GoUnblock:
		what = "woken by the runtime"
		if e.By != 0 {
			what = "woken by goroutine " + strconv.FormatUint(e.By, 10)
		}
		add(" after ", lasted)
	case event.GoDestroy:
		what = "ended"
		add(" after ", lasted)
	case event.GoSyscallBegin:
		what = "system call"
		add(" after ", lasted)
	case event.GoSyscallEnd:
		what = "system call ended"
		add(" after ", lasted)
	default:
		add(": ", safe(report.EventDetail(e)))
	}
	ago := pad(span(time.Duration(max(now-e.Time, 0)))+" ago", 12, true)
	segments := []segment{seg(0, piece{" " + ago, dim}), seg(0, piece{what, t})}
	if e.Stack != nil && len(e.Stack.Frames) > 0 {
		segments = append(segments, seg(1, piece{spot(place.OfEvent(e.Stack, module)), name}))
	}
	return th.line(w, "  ", segments...)
}

// frameIndent is what stands before a line of a stack.
const frameIndent = 3

// frameLine is a line of a stack: as much of the names as there is room for.
func frameLine(th theme, f event.Frame, w int) string {
	function, file := fullFunc(f), filePosition(f)
	fits := func() bool { return frameIndent+width(function)+len(gap)+width(file) <= w }
	if !fits() {
		file = position(f)
	}
	if !fits() {
		function = shortFunc(f)
	}
	return spaces(frameIndent) + th.paint(name, function) + gap + th.paint(dim, file)
}
