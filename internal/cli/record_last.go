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

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// recordLast keeps the newest events of a session, and writes them at the end and on SIGUSR1.
func (a *app) recordLast(ctx context.Context, s session, format *export.Format, flags *recordFlags, out *output.File) error {
	flight, err := s.FlightRecorder(loupe.FlightOptions{MinAge: flags.last, MaxBytes: int64(flags.memory), When: flags.when, After: flags.after,
		Recording: loupe.RecordOptions{Kinds: flags.kinds.kinds}})
	if err != nil {
		return err
	}
	a.state.dumps.Store(true)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	progress := a.progress(fmt.Sprintf("recording process %d, keeping the last %v", s.PID(), flags.last))
	var dumps sync.WaitGroup
	done := make(chan struct{})
	dumps.Go(func() { a.dumpOnRequest(ctx, flight, format, flags.output, asked, done) })
	err = flight.Record(s)
	close(done)
	dumps.Wait()
	progress.Stop()
	if err != nil {
		return err
	}
	found := flight.Found()
	switch {
	case found.Met():
		a.note("%s", findingText(&found))
	case flags.when.Any():
		a.note("no condition was met (%s)", conditionsText(&flags.when))
	}
	written, err := a.dump(flight, format, out)
	if err != nil {
		return err
	}
	written.Why = findingText(&found)
	return a.recorded(s, flags, written)
}

// findingText returns which condition was met, by which goroutine and where; it is empty if none was.
func findingText(f *loupe.Finding) string {
	if !f.Met() {
		return ""
	}
	text := f.What
	if place := report.PlaceOf(f.Stack, f.Origin); place != "" {
		text += " in " + place
	}
	return text + f.Detail
}

// conditionsText returns the flags that set the conditions.
func conditionsText(c *loupe.Conditions) string {
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

// dumpOnRequest writes the events that are kept to a numbered file for each value of asked, until done is closed.
func (a *app) dumpOnRequest(ctx context.Context, flight *loupe.FlightRecorder, format *export.Format, file string, asked <-chan os.Signal, done <-chan struct{}) {
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-asked:
			out, err := a.create(ctx, numbered(file, n))
			var written *recordJSON
			if err == nil {
				written, err = a.dump(flight, format, out)
			}
			if err != nil {
				a.note("%v", err)
				continue
			}
			a.tellRecorded(written)
		}
	}
}

// dump writes the events that are kept to a file. Recording continues meanwhile.
func (a *app) dump(flight *loupe.FlightRecorder, format *export.Format, out *output.File) (*recordJSON, error) {
	kept, err := flight.Take()
	if err != nil {
		out.Discard()
		return nil, err
	}
	written, err := kept.Write(out, loupe.Format(format.Name))
	if err := finish(out, err); err != nil {
		return nil, err
	}
	covered := kept.To.Sub(kept.From)
	if kept.Short {
		a.note("only the last %s fit into --memory; a larger value keeps more", report.ShortTime(covered))
	}
	return &recordJSON{File: out.Name, Format: format.Name, Events: kept.Observed, Goroutines: written.Goroutines, Alive: written.Alive,
		Seconds: covered.Seconds(), Bytes: out.Bytes()}, nil
}

// numbered puts a number before a file's extension.
func numbered(path string, n int) string {
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(path, ext), n, ext)
}
