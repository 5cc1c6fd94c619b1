package tui

import (
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/live"
)

// overlay is a text in front of the page.
type overlay struct {
	name  string
	text  func(w int) []line
	pager pager
	width int // of the screen, to know how many lines there are
}

// line is a line of an overlay.
type line []piece

// press scrolls; false when the key closes the overlay.
func (o *overlay) press(key string, h int) bool { return o.pager.press(key, len(o.text(o.width)), h) }

func (o *overlay) draw(th theme, w, h int) []string {
	o.width = w
	var lines []string
	for _, l := range o.text(w) {
		text := ""
		for _, p := range l {
			text += th.paint(p.tone, p.text)
		}
		lines = append(lines, text)
	}
	return o.pager.show(lines, h)
}

// wrapped breaks a text into lines of at most w columns after an indent.
func wrapped(text string, t tone, w, indent int) []line {
	var lines []line
	for l := range strings.SplitSeq(term.Wrap(text, w, indent), "\n") {
		first := len(lines) == 0
		if first {
			l = spaces(indent) + l
		}
		lines = append(lines, line{{l, t}})
	}
	return lines
}

// keyHelp is what the keys do.
var keyHelp = []hint{
	{"1-5, tab", "select a view: creation sites, states, contention, goroutines, scheduler latency"},
	{"↑ ↓ j k", "move; also pgup, pgdn, home, end"},
	{"enter", "open: the goroutines of a row, then one goroutine with its stacks and history"},
	{"esc", "back; also backspace"},
	{"/", "filter rows by text in function, file, reason or ID"},
	{"s  r", "sort by the next column; reverse"},
	{"p", "freeze the screen; observation continues; also space"},
	{"i", "next interval, from 200ms to 10s"},
	{"a", "contention: show all waits, or only locks and sends"},
	{"P  W", "one goroutine: go to its parent, go to its last waker"},
	{"S", "with --system: hide or show goroutines of the Go runtime"},
	{"w", "notes: loss, warnings and uncertainty"},
	{"q", "quit; also ctrl-c"},
}

const explanation = "A goroutine that waits for a processor is runnable, or ready. Times count from the start of " +
	"the observation. Running goroutines are those that have a P; there are GOMAXPROCS Ps. A goroutine in a system call that is not " +
	"observed (--syscalls) counts as running until its P runs another goroutine or is found to be idle, then as in a system call. After a loss of " +
	"events, goroutines are uncertain until their next event."

// accounting is what the numbers of the line cpu mean.
var accounting = []hint{
	{"CPU", "processor time of the process as accounted by the kernel (utime + stime of all threads), in percent of one processor, " +
		"as in top(1); the sum of the next two"},
	{"goroutines", "the part used by goroutines, in Go code, C code and system calls; the CPU columns add up to this part and the " +
		"runtime's. The kernel accounts by thread; Loupe divides the time of a thread by how long goroutines were on it"},
	{"runtime", "the rest: the scheduler, the garbage collector's workers, threads without a goroutine, goroutines that are not observed"},
	{"run-queue", "how long runnable threads waited for a processor, because the machine was busy or a CPU limit applied"},
}

// heap is what the numbers of the line memory mean.
var heap = []hint{
	{"heap", "allocated objects, including those that are not swept yet (MemStats.HeapAlloc), read from the memory of the program without stopping it"},
	{"goal", "size of the heap at which the next garbage collection should end"},
	{"live", "what the last collection found reachable"},
	{"GC CPU", "processor time of garbage collections between the last two that were seen, in percent of one processor, without marking on idle Ps; " +
		"before Go 1.20 since the program started"},
	{"allocated", "by the whole program, per second"},
}

// newHelp tells the keys, and the columns of the page that is on the screen.
func newHelp(m *Model) *overlay {
	about := columnHelp(m.page())
	return &overlay{name: "help", width: m.width, text: func(w int) []line {
		const indent = 12
		lines := []line{{{" Keys", strong}}}
		explain := func(key, text string, t tone) {
			for i, l := range wrapped(text, plain, w-1, indent) {
				if i == 0 {
					l = line{{" " + pad(key, indent-1, false), t}, {strings.TrimLeft(l[0].text, " "), plain}}
				}
				lines = append(lines, l)
			}
		}
		for _, k := range keyHelp {
			explain(k.key, k.does, keycap)
		}
		lines = append(lines, line{}, line{{" Processor time", strong}})
		for _, a := range accounting {
			explain(a.key, a.does, strong)
		}
		lines = append(lines, line{}, line{{" Memory", strong}})
		for _, a := range heap {
			explain(a.key, a.does, strong)
		}
		if len(about) > 0 {
			lines = append(lines, line{}, line{{" Columns", strong}})
			for _, c := range about {
				explain(c.key, c.does, strong)
			}
		}
		lines = append(lines, line{})
		return append(lines, wrapped(explanation, dim, w-1, 1)...)
	}}
}

// columnHelp lists the columns of a page and what they mean.
func columnHelp(p page) []hint {
	switch p := p.(type) {
	case *sitesPage:
		return explained(p.sheet.columns)
	case *groupsPage:
		return explained(p.sheet.columns)
	case *contentionPage:
		return explained(p.sheet.columns)
	case *goroutinesPage:
		return explained(p.sheet.columns)
	}
	return nil
}

func explained[T any](columns []column[T]) []hint {
	var list []hint
	for _, c := range columns {
		if c.about != "" {
			list = append(list, hint{c.title, c.about})
		}
	}
	return list
}

// newNotes tells what the user should know about the observation.
func newNotes(m *Model) *overlay {
	return &overlay{name: "notes", width: m.width, text: func(w int) []line {
		var lines []line
		note := func(t tone, text string) {
			for i, l := range wrapped(text, t, w-1, 3) {
				if i == 0 {
					l[0].text = " • " + strings.TrimLeft(l[0].text, " ")
				}
				lines = append(lines, l)
			}
		}
		p := m.picture
		if p == nil {
			return nil
		}
		if full := p.Health.Lost - p.Health.Unreadable; full > 0 {
			note(bad, plural(full, "event")+" lost: the buffer was full. A larger --buffer or --stack 0 "+
				"reduces the loss. A goroutine's state is uncertain until its next event.")
		}
		if n := p.Health.Unreadable; n > 0 {
			note(bad, plural(n, "event")+" lost: could not read the target's memory. "+
				"A goroutine's state is uncertain until its next event.")
		}
		for _, n := range event.WarningTexts(p.Health.Warnings) {
			note(warn, safe(n))
		}
		for _, n := range oddities(p) {
			note(plain, n)
		}
		if len(lines) == 0 {
			note(good, "Nothing is uncertain: no event was lost, and no events contradict each other.")
		}
		return lines
	}}
}

// oddities are the numbers that show what the picture lacks.
func oddities(p *live.Picture) []string {
	t := &p.Totals
	var list []string
	for _, o := range []struct {
		n    uint64
		text string
	}{
		{t.Repairs, " contradicted the known state of their goroutines, which was corrected"},
		{t.Untracked, " not counted: too many goroutines to track"},
		{t.Overflow.Sites + t.Overflow.Places + t.Overflow.Reasons,
			" exceeded the limit of distinct sites, stacks or reasons and count as \"other\""},
		{t.UnknownKinds, " of kinds that this version of Loupe does not know"},
	} {
		if o.n > 0 {
			list = append(list, plural(o.n, "event")+o.text)
		}
	}
	if a := p.Allocs; a != nil && a.Elsewhere.Objects > 0 {
		list = append(list, size(a.Elsewhere.Bytes)+" ("+percent(float64(a.Elsewhere.Bytes), float64(a.Total.Bytes))+
			") allocated by the runtime, and by goroutines without a row")
	}
	if a := p.Allocs; a != nil && a.Lost > 0 {
		list = append(list, "at most "+plural(a.Lost, "allocation")+" not counted: probes interrupted each other")
	}
	if t.EndedUnseen > 0 {
		list = append(list, plural(t.EndedUnseen, "goroutine")+" seen only at their end; not counted elsewhere")
	}
	if t.Found > 0 {
		list = append(list, plural(uint64(t.Found), "goroutine")+
			" found by events other than their creation; their creator is unknown")
	}
	return list
}
