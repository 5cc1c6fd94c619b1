package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/record"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// lookInterval is how often the conditions are looked at while nothing happens.
const lookInterval = 50 * time.Millisecond

// flight is a recording of which only the last stretch is kept.
type flight struct {
	app    *app
	format record.Format
	file   string

	mu      sync.Mutex // guards what follows
	kept    *record.Flight
	trigger *record.Trigger
	events  uint64
	dumps   int
	met     record.Finding
	after   time.Duration // goes on after a condition is met
	until   time.Time     // when it ends then
	err     error
}

// recordLast keeps the last events of a session and writes them when it is time.
func (a *app) recordLast(ctx context.Context, s session, format record.Format, flags *recordFlags, opt record.Options, out *output.File) error {
	keep := flags.last
	if flags.when.Any() {
		keep += flags.after
	}
	kept, err := record.NewFlight(keep, int64(flags.memory), export.Options{Process: opt.Process, Kinds: opt.Kinds, Version: opt.Version, Procs: opt.Procs})
	if err != nil {
		return err
	}
	f := &flight{app: a, format: format, file: flags.output, kept: kept, trigger: record.NewTrigger(flags.when, opt.Kinds),
		after: flags.after}
	a.state.dumps.Store(true)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	progress := a.progress(fmt.Sprintf("recording process %d, keeping the last %v", s.PID(), flags.last))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		f.watch(ctx, asked, done, func() { s.Close() })
	}()
	for e := range s.Events() {
		if f.next(e) {
			break
		}
	}
	close(done)
	<-stopped
	progress.Stop()
	if f.err != nil {
		return f.err
	}
	why := findingText(&f.met)
	switch {
	case why != "":
		a.note("%s", why)
	case f.trigger.Any():
		a.note("no condition was met (%s)", conditionsText(&flags.when))
	}
	written, err := f.dump(out)
	if err != nil {
		return err
	}
	written.Why = why
	return a.recorded(s, written)
}

// next takes an event in and reports whether it was the last.
func (f *flight) next(e *event.Event) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.met.Met() && e.Time > f.until.UnixNano() {
		return true
	}
	f.events++
	if f.err = f.kept.Write(e); f.err != nil {
		return true
	}
	if f.trigger.Any() && !f.met.Met() {
		f.meet(f.trigger.Next(e), time.Unix(0, e.Time))
	}
	return f.met.Met() && f.after == 0
}

// meet notes that a condition is met at a time, if it is.
func (f *flight) meet(found record.Finding, now time.Time) {
	if found.Met() {
		f.met, f.until = found, now.Add(f.after)
	}
}

// findingText says which condition was met, by which goroutine and where; it is empty when none was.
func findingText(f *record.Finding) string {
	if !f.Met() {
		return ""
	}
	text := f.What
	if place := report.PlaceOf(f.Stack, f.Origin); place != "" {
		text += " in " + place
	}
	return text + f.Detail
}

// conditionsText names the conditions as they were given.
func conditionsText(c *record.Conditions) string {
	var all []string
	if c.Blocked > 0 {
		all = append(all, "--when-blocked "+c.Blocked.String())
	}
	for _, r := range c.Reasons {
		all = append(all, "--reason "+term.Escape(r))
	}
	if c.Goroutines > 0 {
		all = append(all, fmt.Sprintf("--when-goroutines %d", c.Goroutines))
	}
	if c.Latency > 0 {
		all = append(all, "--when-latency "+c.Latency.String())
	}
	return strings.Join(all, " ")
}

// watch looks at the conditions while nothing happens, and writes a file whenever it is asked to. It calls end when a
// condition is met.
func (f *flight) watch(ctx context.Context, asked <-chan os.Signal, done <-chan struct{}, end func()) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-asked:
			f.dumps++
			out, err := f.app.create(ctx, numbered(f.file, f.dumps))
			var written *recordJSON
			if err == nil {
				written, err = f.dump(out)
			}
			if err != nil {
				f.app.note("%v", err)
				continue
			}
			f.app.tellRecorded(written)
		case now := <-tick.C:
			f.mu.Lock()
			if f.trigger.Any() && !f.met.Met() {
				f.meet(f.trigger.Look(now), now)
			}
			over := f.met.Met() && now.After(f.until)
			f.mu.Unlock()
			if over {
				end()
				return
			}
		}
	}
}

// dump writes what is kept to a file. Events are taken in meanwhile.
func (f *flight) dump(out *output.File) (*recordJSON, error) {
	f.mu.Lock()
	stretch, err := f.kept.Take()
	done := &recordJSON{File: out.Name, Format: string(f.format), Events: f.events}
	f.mu.Unlock()
	if err != nil {
		out.Discard()
		return nil, err
	}
	written, err := export.Formats().Find(string(f.format))
	if err != nil {
		return nil, err
	}
	if err := finish(out, stretch.Write(out, written)); err != nil {
		return nil, err
	}
	if _, done.Goroutines, done.Alive, err = stretch.Count(); err != nil {
		return nil, err
	}
	covered := stretch.To.Sub(stretch.From)
	if stretch.Short {
		f.app.note("only the last %s fit into --memory; a larger value keeps more", report.ShortTime(covered))
	}
	done.Seconds, done.Bytes = covered.Seconds(), out.Bytes()
	return done, nil
}

// numbered puts a number before a file's extension.
func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), n, ext)
}
