package tui

import (
	"time"

	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// latencyPage shows how long goroutines that can run wait for a processor.
type latencyPage struct{ pager pager }

func (l *latencyPage) name(*Model) string  { return "latency" }
func (l *latencyPage) query(q *live.Query) { q.About = live.AboutLatency }
func (l *latencyPage) refresh(*Model)      {}
func (l *latencyPage) filtering() *string  { return nil }
func (l *latencyPage) keys() []hint        { return []hint{{"↑↓", "scroll"}} }

func (l *latencyPage) status(m *Model) string {
	return l.pager.status(len(l.lines(m, max(m.width, 1))), m.bodyHeight())
}

func (l *latencyPage) draw(m *Model, w, h int) []string { return l.pager.show(l.lines(m, w), h) }

func (l *latencyPage) press(m *Model, key string) outcome {
	l.pager.press(key, len(l.lines(m, max(m.width, 1))), m.bodyHeight())
	return outcome{}
}

// lines is the whole page.
func (l *latencyPage) lines(m *Model, w int) []string {
	p, th := m.picture, m.theme
	if p == nil {
		return nil
	}
	now, all := p.LatencyDelta.All(), p.Latency.All()
	last := "last " + report.ShortTime(p.Interval.Round(100*time.Millisecond))
	if p.Interval <= 0 {
		last = "until now"
	}
	lines := []string{th.paint(dim, "  Scheduler latency: how long runnable goroutines wait for a processor.")}
	lines = append(lines, l.tables(m, w, last)...)
	lines = append(lines, "")
	return append(lines, histogram(th, now, all, last, w)...)
}

// twoTables is the width from which on the numbers of the interval and of all time stand beside each other.
const twoTables = 120

// tables tell latencies by cause: of the last interval, and since the beginning.
func (l *latencyPage) tables(m *Model, w int, last string) []string {
	if w < twoTables {
		return append(append(causes(m.theme, &m.picture.LatencyDelta, last, w), ""), causes(m.theme, &m.picture.Latency, "total", w)...)
	}
	left, right := causes(m.theme, &m.picture.LatencyDelta, last, w/2), causes(m.theme, &m.picture.Latency, "total", w-w/2)
	for i := range left {
		left[i] = pad(left[i], w/2, false) + right[i]
	}
	return left
}

// causes has a line for each cause.
func causes(th theme, from *sched.Latency, title string, w int) []string {
	type row struct {
		cause string
		h     *sched.Histogram
	}
	rows := []row{{"all", from.All()}, {"woken", &from.Woken}, {"created", &from.Created}, {"stopped", &from.Stopped}}
	value := func(title string, rank int, of func(*sched.Histogram) time.Duration) column[row] {
		return column[row]{title: title, min: 6, right: true, rank: rank, cell: func(r *row) []piece {
			if r.h.Count() == 0 {
				return cell(dim, "-")
			}
			return cell(plain, span(of(r.h)))
		}}
	}
	quantile := func(q float64) func(*sched.Histogram) time.Duration {
		return func(h *sched.Histogram) time.Duration { return h.Quantile(q) }
	}
	s := sheet[row]{rows: rows, sorted: -1, cursor: -1}
	s.columns = append(s.columns, column[row]{title: title, min: 10, cell: func(r *row) []piece { return cell(strong, r.cause) }},
		column[row]{title: "count", min: 9, right: true, rank: 4, cell: func(r *row) []piece { return counter(r.h.Count(), plain) }},
		value("p50", 2, quantile(0.5)), value("p90", 3, quantile(0.9)), value("p99", 0, quantile(0.99)), value("p99.9", 5, quantile(0.999)),
		value("max", 1, (*sched.Histogram).Max))
	return s.draw(th, w, len(rows)+1)
}

// histogramBounds are where the bars of the histogram begin: 1, 2 and 5 times the powers of ten.
func histogramBounds() []time.Duration {
	bounds := []time.Duration{0}
	for unit := 100 * time.Nanosecond; unit <= 10*time.Second; unit *= 10 {
		bounds = append(bounds, unit, 2*unit, 5*unit)
	}
	return bounds
}

// binned counts durations between bounds. A bucket of the histogram, which is some percent wide, counts where its middle is.
func binned(h *sched.Histogram, bounds []time.Duration) []uint64 {
	counts := make([]uint64, len(bounds))
	for b := range h.Buckets() {
		middle := b.Low + (b.High-b.Low)/2
		i := len(bounds) - 1
		for i > 0 && bounds[i] > middle {
			i--
		}
		counts[i] += b.Count
	}
	return counts
}

// histogram draws a line for each range of durations: of the last interval, and since the beginning.
func histogram(th theme, now, all *sched.Histogram, last string, w int) []string {
	bounds := histogramBounds()
	nows, alls := binned(now, bounds), binned(all, bounds)
	first, end, mostNow, mostAll := len(bounds), -1, uint64(0), uint64(0)
	for i := range bounds {
		if alls[i] > 0 {
			first, end = min(first, i), i
		}
		mostNow, mostAll = max(mostNow, nows[i]), max(mostAll, alls[i])
	}
	if end < 0 {
		return []string{th.paint(dim, "  No goroutine has been scheduled yet.")}
	}
	const label, count = 15, 9
	both := w >= 72
	room := max(w-gutter-label-count-4, 0)
	if both {
		room = max((w-gutter-label-2*count-10)/2, 0)
	}
	head := spaces(gutter) + pad("waited", label, false) + gap + pad(last, count+1+room, false)
	if both {
		head += gap + pad("total", count, false)
	}
	lines := []string{th.paint(heading, clip(head, w))}
	for i := first; i <= end; i++ {
		upper := "more"
		if i+1 < len(bounds) {
			upper = span(bounds[i+1])
		}
		line := spaces(gutter) + pad(span(bounds[i])+" – "+upper, label, false) + gap +
			pad(number(nows[i]), count, true) + " " +
			th.paint(latencyTone(bounds[i]), pad(bar(float64(nows[i]), float64(mostNow), room), room, false))
		if both {
			line += gap + pad(number(alls[i]), count, true) + " " + th.paint(dim, bar(float64(alls[i]), float64(mostAll), room))
		}
		lines = append(lines, line)
	}
	return lines
}

// latencyTone judges a wait for a processor: from a millisecond on people could notice, from 10 ms on they do.
func latencyTone(d time.Duration) tone {
	switch {
	case d >= 10*time.Millisecond:
		return bad
	case d >= time.Millisecond:
		return warn
	}
	return good
}
