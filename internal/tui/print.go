package tui

import (
	"io"
	"strings"
	"time"

	"github.com/loupe-go/loupe/live"
)

// PrintOptions says how pictures are written for scripts.
type PrintOptions struct {
	Interval   time.Duration
	Iterations int             // how many pictures; 0 goes on until the events end
	Target     func() Target   // as far as it is known by now
	Leaving    <-chan struct{} // closed when the user ends the observation; Over is closed later
	Over       <-chan struct{} // closed when the events have ended
	Ended      func() string   // why; asked when Over is closed: empty when the user ended them
}

// Printer writes a picture. ended says why it is the last one; empty when it is not, or when it was not the target's doing.
type Printer interface {
	Print(p *live.Picture, ended string) error
}

// Print writes a picture every interval until the events end or the user ends the observation. The first one comes after an
// interval, so each has rates.
func Print(s Source, out Printer, opt PrintOptions) error {
	s.Window(opt.Interval / 2)
	take := func() *live.Picture {
		return s.Take(live.Query{About: live.AboutSummary, System: true, Module: opt.Target().Module})
	}
	take() // to compare with
	last := time.Now()
	ticker := time.NewTicker(opt.Interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-opt.Leaving:
			<-opt.Over // pictures of a target whose probes are being removed would show less and less
		case <-opt.Over:
		case <-ticker.C:
			if closed(opt.Leaving) {
				<-opt.Over
				break
			}
			last = time.Now()
			if err := out.Print(take(), ""); err != nil || n == opt.Iterations {
				return err
			}
			continue
		}
		ended := opt.Ended()
		// What is left is a picture of its own when it is the end, or not much shorter than the others.
		if ended == "" && time.Since(last) < opt.Interval/2 {
			return nil
		}
		return out.Print(take(), ended)
	}
}

// closed reports whether a channel is closed. A nil channel is not.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// firstRows returns the first n rows of a table; 0 means all.
func firstRows[T any](rows []T, n int) []T {
	if n == 0 {
		return rows
	}
	return rows[:min(n, len(rows))]
}

// TextPrinter writes pictures for people: the head of the live view and the first rows of its tables.
type TextPrinter struct {
	Out     io.Writer
	Target  func() Target // as far as it is known by now
	Rows    int           // of each table; 0 means all
	Width   int           // columns of a line
	Colours bool
}

// Print implements Printer.
func (t *TextPrinter) Print(p *live.Picture, ended string) error {
	m := NewModel(t.Target(), p.Interval.Round(100*time.Millisecond), t.Colours)
	contention := newContention()
	m.printed = true
	m.views = []page{newSites(m.target), newGroups(), contention}
	if ended != "" {
		m.ended = &Ended{Text: ended}
	}
	var b strings.Builder
	write := func(lines []string) {
		for _, l := range lines {
			b.WriteString(strings.TrimRight(clip(l, t.Width), " ") + "\n")
		}
	}
	m.picture = p
	write(m.head(t.Width, fullHead))
	for i, about := range []live.Subject{live.AboutSites, live.AboutGroups, live.AboutPlaces} {
		shown := *p
		shown.Query = live.Query{About: about}
		m.picture, m.view = &shown, i
		m.views[i].refresh(m)
		if about == live.AboutPlaces && len(contention.sheet.rows) == 0 {
			continue
		}
		var all int
		switch v := m.views[i].(type) { // no row is under a cursor
		case *sitesPage:
			v.sheet.cursor, all = -1, len(v.sheet.rows)
		case *groupsPage:
			v.sheet.cursor, all = -1, len(v.sheet.rows)
		case *contentionPage:
			v.sheet.cursor, all = -1, len(v.sheet.rows)
		}
		rows := t.Rows
		if rows == 0 {
			rows = max(all, 1)
		}
		write(m.views[i].draw(m, t.Width, rows+1))
		write([]string{""})
	}
	if ended != "" {
		write([]string{safe(ended), ""})
	}
	_, err := io.WriteString(t.Out, b.String())
	return err
}
