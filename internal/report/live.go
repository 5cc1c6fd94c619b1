package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/place"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/sched"
)

// Live is the summary of a stream of events in a Comparison.
type Live struct {
	Machine *sched.Machine // has processed the events; nil if there was no stream
	Refused string         // the reason why there was no stream

	Elapsed  time.Duration
	Lost     uint64
	Warnings []event.Warning
}

// liveJSON is the part of the JSON document for live events. Counts and times are those of all events.
type liveJSON struct {
	Refused string `json:"refused,omitempty"` // the reason why there was no stream of events; all other fields are then absent

	Seconds   float64         `json:"seconds,omitempty"`
	Events    uint64          `json:"events,omitempty"`
	Lost      *uint64         `json:"lost,omitempty"`
	Created   []createdJSON   `json:"created,omitempty"`
	Latency   *latencyJSON    `json:"latency,omitempty"`
	Waits     []waitJSON      `json:"waits,omitempty"`
	Contended []contendedJSON `json:"contended,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
}

// createdJSON is the goroutines that one go statement created.
type createdJSON struct {
	Count     uint64       `json:"count"`
	CreatedBy *event.Frame `json:"createdBy,omitempty"`
	Start     *event.Frame `json:"start,omitempty"`
}

// latencyJSON is the time that runnable goroutines waited for a processor.
type latencyJSON struct {
	Count          uint64 `json:"count"`
	P50Nanoseconds int64  `json:"p50Nanoseconds"`
	P99Nanoseconds int64  `json:"p99Nanoseconds"`
}

// waitJSON is the completed waits for one reason.
type waitJSON struct {
	Reason  string  `json:"reason"`
	Work    string  `json:"runtimeWork,omitempty"` // see event.RuntimeWork
	Count   uint64  `json:"count"`
	Seconds float64 `json:"seconds"`
}

// newWaitJSON takes a reason as event.WaitText writes it.
func newWaitJSON(text string, count uint64, seconds float64) waitJSON {
	reason, work := event.SplitWait(text)
	return waitJSON{Reason: reason, Work: work, Count: count, Seconds: seconds}
}

// contendedJSON is the waits for locks at one place.
type contendedJSON struct {
	waitJSON
	Place event.Frame `json:"place"`
}

// Maximum numbers of entries that are reported.
const (
	shownSites     = 3
	shownReasons   = 5
	shownContended = 3
)

// creators returns the origins that created the most goroutines.
func (l *Live) creators() []sched.Site {
	sites := slices.DeleteFunc(l.Machine.Sites(), func(s sched.Site) bool { return s.Created == 0 })
	sched.SortSites(sites, sched.SitesByCreated)
	return sites[:min(len(sites), shownSites)]
}

// reasons returns the most frequent wait reasons.
func (l *Live) reasons() []sched.Wait {
	waits := slices.DeleteFunc(l.Machine.Waits(), func(w sched.Wait) bool { return w.Count == 0 || w.Reason == "" })
	slices.SortStableFunc(waits, func(a, b sched.Wait) int { return cmp.Compare(b.Count, a.Count) })
	return waits[:min(len(waits), shownReasons)]
}

// contention is the waits for a kind of lock at one line of the source.
type contention struct {
	reason string
	at     event.Frame
	count  uint64
	time   sched.Nanos
}

// contended returns the lines with the longest waits for locks.
func (l *Live) contended() []contention {
	var list []contention
	for _, p := range stream.LockWaits(l.Machine) {
		if p.Count == 0 || p.Stack == nil {
			continue
		}
		c := contention{reason: p.Reason, at: place.OfEvent(p.Stack, "")}
		i := slices.IndexFunc(list, func(o contention) bool { return o.reason == c.reason && o.at == c.at })
		if i < 0 {
			i = len(list)
			list = append(list, c)
		}
		list[i].count += p.Count
		list[i].time = list[i].time.Add(p.Time)
	}
	slices.SortStableFunc(list, func(a, b contention) int { return b.time.Cmp(a.time) })
	return list[:min(len(list), shownContended)]
}

func (l *Live) json() *liveJSON {
	if l.Machine == nil {
		return &liveJSON{Refused: l.Refused}
	}
	totals, latency := l.Machine.Totals(), l.Machine.Latency()
	doc := &liveJSON{Seconds: l.Elapsed.Seconds(), Events: totals.Events, Lost: &l.Lost, Warnings: event.WarningTexts(l.Warnings)}
	for _, s := range l.creators() {
		created := createdJSON{Count: s.Created}
		if s.Origin != nil {
			created.CreatedBy, created.Start = frameOrNil(s.Origin.CreatedBy), frameOrNil(s.Origin.Start)
		}
		doc.Created = append(doc.Created, created)
	}
	if all := latency.All(); all.Count() > 0 {
		doc.Latency = &latencyJSON{all.Count(), int64(all.Quantile(0.5)), int64(all.Quantile(0.99))}
	}
	for _, w := range l.reasons() {
		doc.Waits = append(doc.Waits, newWaitJSON(w.Reason, w.Count, w.Time.Seconds()))
	}
	for _, c := range l.contended() {
		doc.Contended = append(doc.Contended, contendedJSON{newWaitJSON(c.reason, c.count, c.time.Seconds()), c.at})
	}
	return doc
}

// liveIndent is the column of the text in a line of the live part.
const liveIndent = 12

// text writes the live part as text. position returns the name of a place in the source.
func (l *Live) text(w io.Writer, style term.Style, width int, position func(event.Frame) string) {
	line := func(name, text string) {
		fmt.Fprintf(w, "  %-*s%s\n", liveIndent-2, name, term.Wrap(term.Escape(text), width, liveIndent))
	}
	if l.Machine == nil {
		fmt.Fprintln(w, term.Wrap(style.Bold("LIVE")+"  not shown: "+term.Escape(l.Refused), width, len("LIVE  ")))
		return
	}
	totals, latency := l.Machine.Totals(), l.Machine.Latency()
	lost := "none lost"
	if l.Lost > 0 {
		lost = style.Bad(english.Number(l.Lost) + " lost")
	}
	fmt.Fprintf(w, "%s  %s in %s between the snapshots, %s\n", style.Bold("LIVE"), english.Count(totals.Events, "event"), ShortTime(l.Elapsed), lost)
	name := "created"
	for _, s := range l.creators() {
		line(name, l.rate(s.Created)+" "+siteWords(s.Origin, position))
		name = ""
	}
	if all := latency.All(); all.Count() > 0 {
		line("scheduler", fmt.Sprintf("%s starts; runnable goroutines wait for a processor: median %s, p99 %s",
			l.rate(all.Count()), ShortTime(all.Quantile(0.5)), ShortTime(all.Quantile(0.99))))
	}
	name = "waits"
	for _, r := range l.reasons() {
		line(name, fmt.Sprintf("%s for %s, %s on average", l.rate(r.Count), r.Reason, ShortTime(r.Time.Per(r.Count))))
		name = ""
	}
	name = "contended"
	for _, c := range l.contended() {
		line(name, fmt.Sprintf("%s for %s in %s, %s; %s on average", l.rate(c.count), c.reason, place.ShortFunc(c.at.Func), position(c.at),
			ShortTime(c.time.Per(c.count))))
		name = ""
	}
	for _, warning := range event.WarningTexts(l.Warnings) {
		line("note", warning)
	}
}

// rate formats a frequency.
func (l *Live) rate(count uint64) string {
	perSecond := sched.Rate(count, l.Elapsed)
	if perSecond < 10 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return english.Number(int(perSecond+0.5)) + "/s"
}

// wrapped matches the suffix that the compiler adds to the name of a function for a go statement with arguments.
var wrapped = regexp.MustCompile(`\.gowrap\d+$`)

// siteWords returns a name for the goroutines of an origin.
func siteWords(o *event.Origin, position func(event.Frame) string) string {
	if o == nil || o.Start.IsZero() && o.CreatedBy.IsZero() {
		return "(unknown function)"
	}
	if o.CreatedBy.IsZero() {
		return place.ShortFunc(o.Start.Func)
	}
	started := "started at " + position(o.CreatedBy)
	if o.Start.IsZero() || wrapped.MatchString(o.Start.Func) {
		return started + strings.TrimSuffix(" in "+place.ShortFunc(o.CreatedBy.Func), " in ")
	}
	return place.ShortFunc(o.Start.Func) + ", " + started
}
